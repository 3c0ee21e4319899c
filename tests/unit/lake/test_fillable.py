"""What a user may ask of a table that files of ours cannot give (protocol 4.2)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.lake.fillable import unfillable
from exporter.lake.schema import table_schema
from offsets.partitions import Spec
from offsets.table_log import TableView

DECLARED = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def view(*more: dict[str, Any], version: int = 7, features: tuple[str, ...] = (), **properties: str) -> TableView:
    schema = json.loads(table_schema(DECLARED))
    schema["fields"] += [{"type": "long", "nullable": True, "metadata": {}, **field} for field in more]
    named = {name.replace("__", "."): text for name, text in properties.items()}
    return TableView(1, "id", "f", {}, named, ("day",), json.dumps(schema), version, features)


@pytest.mark.parametrize("declared", [DECLARED, None])
def test_tables_as_we_make_them_can_be_filled(declared):
    """The dead letters' as well."""
    assert unfillable(TableView(0, "id", "f", {}, {"exporter.app": "a"}, ("day",), table_schema(declared), 2)) == ""


def test_what_asks_nothing_of_a_file_is_no_matter():
    """A column of the user's, comments, NOT NULL on what every row has, features of Delta's own bookkeeping."""
    features = ("appendOnly", "invariants", "deletionVectors", "rowTracking", "changeDataFeed", "checkConstraints")
    assert unfillable(view({"name": "extra", "metadata": {"comment": "ours"}}, features=features)) == ""
    schema = json.loads(table_schema(DECLARED))
    for field in schema["fields"]:
        field["nullable"] = field["name"] not in ("_kafka", "day")
    assert unfillable(TableView(1, "id", "f", {}, {}, ("day",), json.dumps(schema), 7)) == ""


@pytest.mark.parametrize(
    "feature",
    ["checkpointProtection", "typeWidening", "typeWidening-preview", "variantType", "variantType-preview"],
)
def test_what_is_left_of_an_alteration_is_no_matter(feature: str) -> None:
    """DROP FEATURE leaves checkpointProtection; a type may be widened and is not; a column is VARIANT."""
    assert unfillable(view({"name": "v", "type": "variant"}, features=("appendOnly", feature))) == ""


def test_a_table_that_somebody_else_has_cut_is_not_filled() -> None:
    """And what cuts one of ours may be NOT NULL, for every row has it; a column in its own right may be null."""
    schema = json.loads(table_schema(DECLARED, Spec("hour")))
    for field in schema["fields"]:
        field["nullable"] = field["name"] not in ("_kafka", "day", "hour")
    told = unfillable(TableView(1, "id", "f", {}, {}, ("hour", "day"), json.dumps(schema), 7))
    assert told == "it is partitioned by hour, day; column day is NOT NULL; column hour is NOT NULL"
    assert unfillable(TableView(1, "id", "f", {}, {}, ("day", "hour"), json.dumps(schema), 7)) == ""
    told = unfillable(TableView(1, "id", "f", {}, {}, ("day", "hour", "id"), json.dumps(schema), 7))
    assert told == ""


def test_all_reasons_are_told() -> None:
    """Whoever takes one off does not meet the next one at the next start."""
    told = unfillable(view({"name": "must", "nullable": False}, features=("x1", "x2"), delta__constraints__a="id > 1"))
    assert told == "constraint a CHECK (id > 1); column must is NOT NULL; Delta writer features x1, x2"


NESTED = {"name": "s", "type": {"type": "struct", "fields": [
    {"name": "x", "type": "long", "nullable": False, "metadata": {}}]}}  # fmt: skip


@pytest.mark.parametrize(
    "table, reason",
    [
        (view(delta__constraints__small="id < 15"), "constraint small CHECK (id < 15)"),
        (view(delta__columnMapping__mode="name"), "delta.columnMapping.mode = name"),
        (view({"name": "must", "nullable": False}), "column must is NOT NULL"),
        (view(NESTED), "column s.x is NOT NULL"),
        (view({"name": "g", "metadata": {"delta.generationExpression": "id + 1"}}), "column g is generated"),
        (view({"name": "i", "metadata": {"delta.identity.start": 1}}), "column i is an identity column"),
        (view({"name": "d", "metadata": {"CURRENT_DEFAULT": "7"}}), "column d has a default"),
        (view(features=("appendOnly", "icebergCompatV2")), "Delta writer feature icebergCompatV2"),
        (view(version=8), "Delta writer version 8"),
    ],
)
def test_what_delta_would_enforce_on_its_own_writers_is_named(table, reason):
    """It is not enforced on files that are only named in a commit, so the type is parked."""
    assert unfillable(table) == reason
