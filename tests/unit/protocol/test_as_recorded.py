"""Under which decoder version a task goes on: the one that the tables record, where values are read as it read them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.value_format import ValueFormat
from exporter.errors import TableUnreadable
from exporter.lake.lake import Lake
from exporter.workbench import as_recorded
from offsets.table_log import CONFIG_PROPERTY


def lake(*recorded: Routing, silent: bool = False, there: bool = True) -> Lake:
    """One whose dead letters, if they are there, record these. silent: they cannot be read."""

    class Read:
        properties = {f"{CONFIG_PROPERTY}{one.fingerprint()}": "" for one in recorded}

    class Table:
        def view(self) -> Any:
            if silent:
                raise TableUnreadable("the storage does not answer")
            return Read if there else None

    class Made:
        def table(self, name: str) -> Table:
            assert name == DEAD_LETTERS
            return Table()

    return cast("Lake", Made())


COLUMNS = json.dumps({"type": "struct", "fields": [
    {"name": "at", "type": "timestamp", "nullable": True, "metadata": {}}]})  # fmt: skip
NEW = Routing(TypeFrom("topic"), EventTime("json", "at"), (("order", COLUMNS),), decoder_version=3)
OLD = replace(NEW, decoder_version=1)
OTHER = replace(OLD, generation=1)


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (lake(there=False), NEW),
        (lake(), NEW),
        (lake(OTHER), NEW),
        (lake(OLD), OLD),
        (lake(OTHER, OLD), OLD),
        (lake(OLD, NEW), NEW),
        (lake(OLD, silent=True), NEW),
    ],
    ids=["no table", "none", "another", "the same", "the same and another", "switched since", "unread"],
)
def test_an_upgrade_alone_is_no_switch_of_what_is_read_as_before(made: Lake, wanted: Routing) -> None:
    """New lakes, and those whose settings change, have the newest version; once switched, it stays."""
    assert as_recorded(NEW, made) == wanted


def test_what_is_read_otherwise_is_a_switch() -> None:
    """Whatever the tables record: nothing here reads it as the version before did."""
    avro = replace(NEW, value_format=ValueFormat("avro", "confluent"))
    assert as_recorded(avro, lake(replace(avro, decoder_version=1))) == avro
