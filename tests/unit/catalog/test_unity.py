"""What a Unity Catalog is told, and what is made of its answers, by a server that says what a test wants. No JVM."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from exporter.catalog.catalog import CatalogAddress, CatalogEntry, CatalogTable, register
from exporter.catalog.unity import UnityCatalog
from exporter.column.ddl import ddl_schema
from exporter.errors import DependencyUnreachable
from exporter.secrets import masked
from tests.support.posted import answering

ENTRY = CatalogEntry("order", "s3a://bucket/lake/order", ddl_schema("id BIGINT, at TIMESTAMP_NTZ"))
NO_TABLE = (404, json.dumps({"error_code": "TABLE_NOT_FOUND", "message": "no such table"}))
NO_SCHEMA = (404, json.dumps({"error_code": "SCHEMA_NOT_FOUND", "message": "no such schema"}))
TAKEN = (200, "{}")


@contextmanager
def saying(*answers: tuple[int, str], token_file: str = "") -> Iterator[tuple[UnityCatalog, list[Any], list[str]]]:
    """A catalog that gives these answers, one after the other; what it was told, and as whom."""
    left, told, logins = [*answers], [], []

    def answer(text: str, headers: Mapping[str, str]) -> tuple[int, str]:
        told.append(json.loads(text) if text else None)
        logins.append(headers.get("Authorization", ""))
        return left.pop(0)

    with answering(answer) as url:
        yield UnityCatalog(CatalogAddress("main.lake", url, token_file)), told, logins
    assert not left, "it was not asked so often"


def test_a_table_is_an_external_one_of_delta_with_its_columns() -> None:
    """Its bucket as everybody but Hadoop calls it."""
    with saying(NO_TABLE, TAKEN) as (catalog, told, logins):
        assert register(catalog, ENTRY) == ("made", ENTRY.location)
    asked = told[1]
    columns = asked.pop("columns")
    assert asked == {
        "name": "order", "catalog_name": "main", "schema_name": "lake", "table_type": "EXTERNAL",
        "data_source_format": "DELTA", "storage_location": "s3://bucket/lake/order",
    }  # fmt: skip
    at = {"name": "at", "type": "timestamp_ntz", "nullable": True, "metadata": {}}
    assert json.loads(columns[1].pop("type_json")) == at
    assert columns[1] == {
        "name": "at", "type_text": "timestamp_ntz", "type_name": "TIMESTAMP_NTZ", "position": 1, "nullable": True,
    }  # fmt: skip
    assert logins == ["", ""]


@pytest.mark.parametrize(
    ("ddl", "text", "name"),
    [
        ("INT", "int", "INT"), ("TINYINT", "tinyint", "BYTE"), ("STRING", "string", "STRING"),
        ("JSON", "string", "STRING"), ("DECIMAL(12,2)", "decimal(12,2)", "DECIMAL"),
        ("ARRAY<JSON>", "array<string>", "ARRAY"), ("MAP<STRING, DATE>", "map<string,date>", "MAP"),
        ("STRUCT<a: BIGINT, `b c`: BINARY>", "struct<a:bigint,`b c`:binary>", "STRUCT"),
    ],
)  # fmt: skip
def test_columns_are_told_as_spark_reads_them_again(ddl: str, text: str, name: str) -> None:
    """A text of JSON is a text to everybody else; a name that needs quotes has them."""
    with saying(TAKEN) as (catalog, told, _):
        catalog.make(CatalogEntry("t", "file:///t", ddl_schema(f"x {ddl}")))
    (column,) = told[0]["columns"]
    assert (column["type_text"], column["type_name"]) == (text, name)
    assert (column.get("type_precision"), column.get("type_scale")) == ((12, 2) if name == "DECIMAL" else (None, None))


def test_a_schema_is_made_where_there_is_none() -> None:
    """Once; somebody may be faster, with it or with the table."""
    exists = (400, json.dumps({"error_code": "SCHEMA_ALREADY_EXISTS", "message": "there"}))
    for made, again in ((TAKEN, TAKEN), (exists, (409, json.dumps({"error_code": "TABLE_ALREADY_EXISTS"})))):
        with saying(NO_SCHEMA, made, again) as (catalog, told, _):
            catalog.make(ENTRY)
        assert told[1] == {"name": "lake", "catalog_name": "main"}
        assert told[0] == told[2]


def test_a_catalog_is_made_by_nobody_here() -> None:
    """Where it stores things is for its administrator to say."""
    none = (404, json.dumps({"error_code": "CATALOG_NOT_FOUND", "message": "no catalog main"}))
    with saying(none, none) as (catalog, _, _), pytest.raises(DependencyUnreachable, match="404 CATALOG_NOT_FOUND no"):
        catalog.make(ENTRY)


def test_what_is_there_is_found_with_its_place() -> None:
    """Its columns are the log's: there is no call that changes them."""
    with saying((200, json.dumps({"storage_location": "s3://bucket/lake/order", "columns": []}))) as (catalog, _, _):
        assert catalog.find("order") == CatalogTable("s3://bucket/lake/order", None)


@pytest.mark.parametrize(
    "answer",
    [(404, "<html>not here</html>"), (403, json.dumps({"error_code": "PERMISSION_DENIED", "message": "no right"})),
     (302, ""), (500, "oops"), (200, "[]"), (404, "{}"), (200, "null")],
)  # fmt: skip
@pytest.mark.parametrize("ask", [lambda c: c.find("order"), lambda c: c.make(ENTRY)])
def test_any_other_answer_is_trouble_and_decides_nothing(
    answer: tuple[int, str], ask: Callable[[UnityCatalog], object]
) -> None:
    """A proxy's page is no word that a table is not there."""
    with saying(answer) as (catalog, _, _), pytest.raises(DependencyUnreachable, match=f"HTTP {answer[0]}") as raised:
        ask(catalog)
    assert "catalog_token_file" in raised.value.hint


def test_a_token_may_change_and_is_shown_nowhere(tmp_path: Path) -> None:
    """The file is read at each call; the old token is a secret no more."""
    file = tmp_path / "token"
    file.write_text("first-token\n")
    refused = (403, json.dumps({"error_code": "DENIED", "message": "Bearer second-token is no login"}))
    with saying(NO_TABLE, refused, token_file=str(file)) as (catalog, _, logins):
        assert catalog.find("order") is None
        assert masked("first-token") == "********"
        file.write_text("second-token")
        with pytest.raises(DependencyUnreachable, match=r"DENIED Bearer \*{8} is no login"):
            catalog.find("order")
    assert logins == ["Bearer first-token", "Bearer second-token"]
    assert masked("first-token") == "first-token"
