"""What a table is called in a catalog, what its columns are there, and what engines are told of it."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.catalog.catalog import CatalogEntry, register, same_place
from exporter.catalog.hive_types import hive_columns
from exporter.catalog.memory import MemoryCatalog
from exporter.catalog.names import catalog_name, clashes
from exporter.catalog.statements import DIALECTS, database_statement, statement
from exporter.column.spark_json import struct_of

ENTRY = CatalogEntry("order_placed", "s3a://bucket/it's/Order~2EPlaced")


@pytest.mark.parametrize(
    ("event_type", "name"),
    [("order", "order"), ("Order.Placed", "order_placed"), ("a-b", "a_b"), ("1st", "1st"), ("заказ", "_____"),
     ("a b/c", "a_b_c"), ("dead_letters", "dead_letters")],
)  # fmt: skip
def test_a_name_is_in_lower_case_and_has_no_other_characters(event_type: str, name: str) -> None:
    """So every catalog takes it, and a person can foresee it."""
    assert catalog_name(event_type) == name


@given(st.text(min_size=1))
def test_every_event_type_has_a_name_and_that_is_its_own_name(event_type: str) -> None:
    """Whatever it is called; a name once made stays as it is."""
    name = catalog_name(event_type)
    assert name and catalog_name(name) == name


def test_who_wants_the_same_name_is_told() -> None:
    """All of them, in an order that does not depend on who came first."""
    assert clashes(["b", "a.b", "A-b", "a_b"]) == {"a_b": ["A-b", "a.b", "a_b"]}
    catalog = MemoryCatalog()
    assert register(catalog, CatalogEntry("a_b", "file:///lake/a~2Eb"))[0] == "made"
    assert register(catalog, CatalogEntry("a_b", "file:///lake/a-b")) == ("elsewhere", "file:///lake/a~2Eb")


def test_one_place_may_be_written_in_several_ways() -> None:
    """By Hadoop, by AWS and by Java; another folder is another place."""
    assert same_place("s3a://b/lake/order", "s3://b/lake/order/")
    assert same_place("file:/lake/a%20b", "file:///lake/a b")
    assert not same_place("s3://b/lake/order", "s3://c/lake/order")
    assert not same_place("s3://b/lake/order", "s3://b/lake/Order")
    assert not same_place("hdfs://b/lake/order", "s3://b/lake/order")


def test_columns_are_told_in_hives_words() -> None:
    """However they are nested; also types that Hive does not have."""
    places: Any = {"type": "map", "keyType": "string", "valueType": "decimal(3,1)", "valueContainsNull": True}
    nested: Any = {"type": "struct", "fields": [
        {"name": "x", "type": "long"}, {"name": "y", "type": {"type": "array", "elementType": places}},
    ]}  # fmt: skip
    types = {
        "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "float": "float",
        "double": "double", "decimal(12,2)": "decimal(12,2)", "string": "string", "binary": "binary",
        "boolean": "boolean", "date": "date", "timestamp": "timestamp", "timestamp_ntz": "timestamp",
        "variant": "string",
    }  # fmt: skip
    fields = [{"name": kind, "type": kind} for kind in types] + [{"name": "nested", "type": nested}]
    told = hive_columns(struct_of(json.dumps({"type": "struct", "fields": fields})))
    assert told == (*types.items(), ("nested", "struct<x:bigint,y:array<map<string,decimal(3,1)>>>"))


def test_each_engine_is_told_in_its_own_words() -> None:
    """Buckets too, which only Hadoop calls s3a; quotes in a path end no text."""
    assert {name: statement(name, "lake", ENTRY) for name in DIALECTS} == {
        "spark": "CREATE TABLE IF NOT EXISTS `lake`.`order_placed` USING DELTA "
                 r"LOCATION 's3a://bucket/it\'s/Order~2EPlaced';",
        "databricks": "CREATE TABLE IF NOT EXISTS `lake`.`order_placed` USING DELTA "
                      r"LOCATION 's3://bucket/it\'s/Order~2EPlaced';",
        "athena": "CREATE EXTERNAL TABLE IF NOT EXISTS `lake`.`order_placed` LOCATION "
                  "'s3://bucket/it''s/Order~2EPlaced/' TBLPROPERTIES ('table_type' = 'DELTA');",
        "trino": "CALL delta.system.register_table(schema_name => 'lake', table_name => 'order_placed', "
                 "table_location => 's3://bucket/it''s/Order~2EPlaced');",
        "duckdb": 'CREATE OR REPLACE VIEW "lake"."order_placed" AS SELECT * FROM '
                  "delta_scan('s3://bucket/it''s/Order~2EPlaced');",
    }  # fmt: skip
    assert statement("spark", "", ENTRY).startswith("CREATE TABLE IF NOT EXISTS `order_placed` USING")
    assert database_statement("trino", "lake") == "CREATE SCHEMA IF NOT EXISTS delta.lake;"


def test_a_database_may_be_in_a_catalog() -> None:
    """As a Unity Catalog has it: each part of its name by itself."""
    table = CatalogEntry("t", "s3://b/t")
    for name in DIALECTS:
        told = f"{database_statement(name, 'main.lake')} {statement(name, 'main.lake', table)}"
        assert "main.lake`" not in told and 'main.lake"' not in told
    assert "EXISTS `main`.`lake`.`t`" in statement("databricks", "main.lake", table)
    assert database_statement("databricks", "main.lake") == "CREATE SCHEMA IF NOT EXISTS `main`.`lake`;"
    assert statement("trino", "main.lake", table).startswith("CALL main.system.register_table(schema_name => 'lake',")
    assert database_statement("trino", "main.lake") == "CREATE SCHEMA IF NOT EXISTS main.lake;"


def test_a_place_of_odd_letters_is_a_text_to_each_engine() -> None:
    """Spark by default replaces `${env:X}` in a statement: there it is written without that mark."""
    told = {name: statement(name, "lake", CatalogEntry("t", "/a'b\\c/${env:HOME}")) for name in DIALECTS}
    assert r"LOCATION '/a\'b\\c/\u0024{env:HOME}';" in told["spark"] and "${" not in told["databricks"]
    for name in ("athena", "trino", "duckdb"):
        assert "'/a''b\\c/${env:HOME}" in told[name]


def test_duckdb_can_read_what_it_is_told() -> None:
    """Its parser does; the extension that would run it is not asked for."""
    text = f"{database_statement('duckdb', 'lake')} {statement('duckdb', 'lake', ENTRY)}"
    assert len(duckdb.extract_statements(text)) == 2
