"""Where a column came from, since when it is there, and what found none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from exporter.core.columns import reserved
from exporter.core.evolve import Evolution, grown
from exporter.core.seen import At, Seen
from exporter.lake.schema import table_schema
from exporter.lake.schema_history import SchemaHistory, schema_history
from exporter.operate.schema.columns import column_rows
from exporter.operate.schema.rescued import RescuedRow, rescued_rows
from exporter.stores.file import FileStore
from offsets.partitions import DAY, Spec


def declared(*names: str) -> str:
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    return json.dumps({"type": "struct", "fields": fields})


def evolved(table_json: str, value: Any, offset: int = 7) -> str:
    seen = Seen()
    seen.add(value, At("t", 0, offset))
    return grown(table_json, seen, Evolution())


def with_column(table_json: str, name: str) -> str:
    """As ALTER TABLE adds one: at the end."""
    table = json.loads(table_json)
    table["fields"] += json.loads(declared(name))["fields"]
    return json.dumps(table)


AT_0 = table_schema(declared("a"))
AT_3 = evolved(AT_0, {"b": {"c": 1}, "items": [{"x": "1"}]})
AT_5 = evolved(AT_3, {"b": {"d": [1, "x"]}}, offset=9)
AT_6 = with_column(AT_5, "users_own")


def test_each_column_tells_where_it_came_from_and_since_when() -> None:
    """Declared, evolved by which record, there by itself; everything in an evolved column is evolved too."""
    history = SchemaHistory({0: AT_0, 3: AT_3, 5: AT_5, 6: AT_6}, whole=True)
    rows = {row.path: row[1:] for row in column_rows(AT_6, declared("a"), reserved(DAY), history, {"b.c": "BIGINT"})}
    assert rows == {
        "_kafka": (rows["_kafka"][0], "exporter", "", 0, ""), "_event_time": ("TIMESTAMP", "exporter", "", 0, ""),
        "a": ("BIGINT", "declared", "", 0, ""), "b": ("STRUCT", "evolved", "t/0/7", 3, ""),
        "b.c": ("BIGINT", "evolved", "t/0/7", 3, "BIGINT"), "b.d": ("ARRAY<JSON>", "evolved", "t/0/9", 5, ""),
        "items": ("ARRAY<STRUCT>", "evolved", "t/0/7", 3, ""), "items[].x": ("STRING", "evolved", "t/0/7", 3, ""),
        "users_own": ("BIGINT", "table", "", 6, ""), "_rescued": ("STRING", "exporter", "", 0, ""),
        "day": ("DATE", "exporter", "", 0, ""),
    }  # fmt: skip


def test_a_version_is_told_only_where_the_log_shows_that_the_column_was_not_there_before() -> None:
    """The oldest schema of a log that was cleaned up may have been there for long."""
    history = SchemaHistory({3: AT_3, 5: AT_5}, whole=False)
    since = {row.path: row.version for row in column_rows(AT_5, declared("a"), reserved(DAY), history, {})}
    assert (since["a"], since["b"], since["b.c"], since["b.d"]) == (None, None, None, 5)


def test_the_columns_that_cut_a_table_are_the_exporters_by_its_own_spec() -> None:
    """A table by month may have a column `day` that is the user's."""
    spec = Spec("month")
    table = table_schema(declared("day"), spec)
    rows = column_rows(table, declared("day"), reserved(spec), SchemaHistory({0: table}, True), {})
    assert {row.path: row.origin for row in rows if not row.path.startswith("_")} == {
        "day": "declared", "month": "exporter"
    }  # fmt: skip


def test_the_log_tells_which_version_had_which_schema(tmp_path: Path) -> None:
    """Each that set one, back to where the log begins."""
    table = FileStore(str(tmp_path))
    entries = {0: [{"metaData": {"schemaString": AT_0}}], 1: [{"add": {"path": "x"}}],
               2: [{"commitInfo": {}}, {"metaData": {"schemaString": AT_3}}], 3: [{"commitInfo": {}}]}  # fmt: skip
    for version, actions in entries.items():
        text = "\n".join(json.dumps(one, separators=(",", ":")) for one in actions)
        table.write_once(f"_delta_log/{version:020d}.json", text.encode())
    assert schema_history(table, 3) == SchemaHistory({0: AT_0, 2: AT_3}, True)
    assert schema_history(table, 1) == SchemaHistory({0: AT_0}, True)
    table.delete(f"_delta_log/{0:020d}.json")
    assert schema_history(table, 3) == SchemaHistory({2: AT_3}, False)


COLUMNS = {"b": "STRUCT", "b.c": "BIGINT", "items": "ARRAY<STRUCT>", "items[].x": "BIGINT", "n": "BIGINT",
           "tags": "ARRAY<STRING>"}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('{"new": {"deep": {"er": 1}}}', [("new", 1, {"object": 1}, "")]),
        ('{"n": "many"}', [("n", 1, {"text": 1}, "BIGINT")]),
        ('{"b": {"c": "x", "e": 1}}', [("b.c", 1, {"text": 1}, "BIGINT"), ("b.e", 1, {"integer": 1}, "")]),
        ('{"b": 5}', [("b", 1, {"integer": 1}, "STRUCT")]),
        ('{"items": [null, {"x": "many"}, {"y": 1}]}',
         [("items[].x", 1, {"text": 1}, "BIGINT"), ("items[].y", 1, {"integer": 1}, "")]),
        ('{"items": "none"}', [("items", 1, {"text": 1}, "ARRAY<STRUCT>")]),
        ('{"tags": ["a", 1]}', [("tags", 1, {"array": 1}, "ARRAY<STRING>")]),
    ],
)  # fmt: skip
def test_what_found_no_column_is_told_at_the_place_where_it_stays(text: str, rows: list[Any]) -> None:
    """As high as there is no column, with the column that it did not fit."""
    assert rescued_rows([text], COLUMNS) == tuple(RescuedRow(*row) for row in rows)


def test_values_that_a_wider_type_would_hold_are_told_as_outgrown() -> None:
    """Integers beyond an INT's, numbers beyond a FLOAT's or a DECIMAL's; not what no such type holds."""
    texts = ['{"i": 3000000000, "f": 0.1, "d": 1e30}', '{"i": "x", "f": 1, "d": 7}', '{"i": 1.5, "l": 2e30}']
    types = {"i": "INT", "f": "FLOAT", "d": "DECIMAL(5,2)", "l": "BIGINT"}
    told = {row.path: row.outgrown for row in rescued_rows(texts, types)}
    assert told == {"i": 1, "f": 2, "d": 2, "l": 0}


def test_the_paths_with_most_rows_come_first_and_keys_without_end_are_one() -> None:
    """Each row counts once for a path."""
    texts = ['{"a": 1}', '{"a": "x", "z": 1}', '{"z": 1}', '{"z": 1, "items": [{"y": 1}, {"y": 2}]}']
    assert [(row.path, row.rows) for row in rescued_rows(texts, COLUMNS)] == [("z", 3), ("a", 2), ("items[].y", 1)]
    assert [row.path for row in rescued_rows([f'{{"k{at}": 1}}' for at in range(3000)], COLUMNS)] == ["*"]
    assert rescued_rows([], COLUMNS) == ()
