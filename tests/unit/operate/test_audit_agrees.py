"""The audit's opinion on shaped rows beside what the exporter makes of the same records, without Spark and Kafka.

Each of the cases of tests/e2e/test_rules.py is decoded and shaped; what the audit expects of it must be what became of
it, its row must have no difference, and any other row must have one.
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from functools import cache, partial
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from exporter.arrow.own_columns import SHAPING_SCHEMA
from exporter.column.ddl import ddl_schema
from exporter.core.routing import Routing
from exporter.core.schemas import KnownSchemas
from exporter.formats.decoder import Decoder
from exporter.proof.codes import DEAD_LETTER, EITHER, sifted
from exporter.proof.contents.compare import NOTHING_SURE, Configured
from exporter.proof.readers.reader import NoGoodRecord
from exporter.proof.readers.reading import ValueReading
from exporter.proof.rules.computing import ComputedFrom, Computing
from exporter.proof.rules.filters import Filter, sifts
from exporter.proof.rules.values import Unsure
from exporter.settings.meaning import routing
from exporter.shape.shaper import Shaper
from offsets.ranges import TopicPartition
from tests.e2e.test_rules import CONSTANTS, SHAPED, SHAPES
from tests.support.lakes import Export

CODE = 1
CASES = [(at, one) for at, one in enumerate(SHAPED) if b"tenth" not in (one.record.value or b"") or at % 8 == 0]
"""By their offsets; of those that are alike some."""
TIMESTAMP_US = 1_769_860_800_000_000
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


class Fate(NamedTuple):
    """What the exporter has made of a record: its row if it is kept, else whether it is filtered."""

    row: dict[str, Any] | None
    filtered: bool
    stage: str = ""


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Routing:
    """The configuration of those cases."""
    folder = tmp_path_factory.mktemp("rules")
    export = Export(
        "127.0.0.1:1", "t", folder, "app", {name: columns for name, (columns, _) in SHAPES.items()},
        cuts={name: told for name, (_, told) in SHAPES.items()},
        more="[constants]\n" + "\n".join(f"{name} = {json.dumps(value)}" for name, value in CONSTANTS.items()),
    )  # fmt: skip
    settings = export.settings()
    schemas = {name: ddl_schema(text) for name, text in settings.declared.items()}
    added = {name: table.python_columns for name, table in settings.types.items() if table.python_columns}
    return routing(settings, schemas, {name: ddl_schema(text) for name, text in added.items()})


def record_of(case: Any, offset: int) -> dict[str, Any]:
    sent = case.record
    headers = [{"key": key, "value": value} for key, value in sent.headers] or None
    at = {"topic": "t", "partition": 0, "offset": offset, "timestamp": TIMESTAMP_US}
    return {**at, "key": sent.key, "headers": headers, "value": sent.value}


@cache
def exporting(rules: Routing, name: str) -> tuple[Decoder, Shaper]:
    return Decoder.of(name, rules), Shaper(rules.shape_by_type[name], rules.constants)


def fate(rules: Routing, name: str, record: dict[str, Any]) -> Fate:
    decoder, shaper = exporting(rules, name)
    times = pa.array([TIMESTAMP_US], pa.timestamp("us", "UTC"))
    decoded = decoder.decode(pa.array([record["value"]], pa.binary()), times)
    if not decoded.table.num_rows:
        return Fate(None, False, decoded.bad[0][1])
    kafka = {part: record[part] for part in ("topic", "partition", "offset", "timestamp")}
    seen = [{"_kafka": kafka, "_key": record["key"], "_headers": record["headers"]}]
    made = shaper.shaped(decoded.table, pa.Table.from_pylist(seen, schema=SHAPING_SCHEMA))
    if len(made.kept):
        return Fate(made.table.to_pylist()[0], False)
    return Fate(None, bool(len(made.filtered)), "" if len(made.filtered) else "transform")


def held(value: Any) -> Any:
    """As the audit reads a column."""
    if isinstance(value, dt.datetime):
        return (value - (EPOCH if value.tzinfo else EPOCH.replace(tzinfo=None))) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - EPOCH.date()).days
    return value


def another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float | Decimal) else b"?" if isinstance(value, bytes) else f"{value}?"


def document_of(rules: Routing, record: dict[str, Any]) -> Any:
    """The value, as the audit reads it."""
    try:
        return (
            ValueReading(rules.value_format, KnownSchemas()).read(record["value"], TopicPartition("t", 0), 0).document
        )
    except NoGoodRecord:
        return Unsure


def test_the_audit_expects_what_becomes_of_each_record(rules: Routing) -> None:
    """Kept, filtered, or dead because its filter fails; and of almost all it is sure."""
    judged = {CODE: 0, sifted(CODE): 0, DEAD_LETTER: 0, EITHER: 0}
    for offset, case in CASES:
        record = record_of(case, offset)
        name = json.loads(record["value"])["type"]
        shape = rules.shape_by_type[name]
        became = fate(rules, name, record)
        if not sifts(shape):
            continue
        document = document_of(rules, record)
        (expected,) = Filter(shape, CODE).judged([document], [record])
        judged[expected] += 1
        if became.stage == "":
            assert expected in (EITHER, sifted(CODE) if became.filtered else CODE), case
        else:
            assert expected != sifted(CODE), case
    assert judged[CODE] > 10 and judged[sifted(CODE)] > 15 and judged[DEAD_LETTER] >= 1 and judged[EITHER] <= 5, judged


def test_a_row_is_compared_whole_with_what_settings_make_of_its_value(rules: Routing) -> None:
    """It has no difference, and another value in any of its columns is one; but for those of a function."""
    compared = 0
    for offset, case in CASES:
        record = record_of(case, offset)
        name = json.loads(record["value"])["type"]
        became = fate(rules, name, record)
        asked = ComputedFrom(0, 0, CODE, document_of(rules, record), record)
        computed = Computing([rules], {CODE: name}).of([asked]).get(0, NOTHING_SURE)
        if became.row is None:
            assert computed is not None or became.stage == "transform" or became.filtered, case
            continue
        rescued = became.row.pop("_rescued")
        at = held(became.row.pop("_event_time"))
        columns = {column: held(value) for column, value in became.row.items() if value is not None}
        places = partial(Configured.of(rules, name, rules.columns_of(name)).differences, record["value"])
        assert places(columns, rescued, at, computed=computed) == [], case
        for column, value in columns.items():
            if column in CONSTANTS or name != "plugged":
                other = {**columns, column: another(value)}
                assert places(other, rescued, at, computed=computed), (case, column)
                compared += 1
    assert compared > 250
