"""What Glue is told, as moto keeps it: by that Athena, Spark and Trino know a Delta table. No JVM."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from exporter.catalog.catalog import CatalogEntry, register
from exporter.catalog.glue import GlueCatalog
from exporter.column.ddl import ddl_schema
from exporter.stores.store import Store
from tests.support.services import fresh_name

DDL = "id BIGINT, at TIMESTAMP"


@pytest.fixture
def client(s3: Store) -> Any:
    return boto3.client("glue", endpoint_url=s3.options["endpoint"])


def test_a_table_has_what_its_readers_look_for(client: Any) -> None:
    """Its bucket in AWS's spelling, no partition keys, for those are the log's; the database is made with it."""
    database = fresh_name("lake").replace("-", "_")
    catalog = GlueCatalog(database, client)
    assert register(catalog, CatalogEntry("order", "s3a://bucket/lake/order", ddl_schema(DDL)))[0] == "made"
    table = client.get_table(DatabaseName=database, Name="order")["Table"]
    assert table["TableType"] == "EXTERNAL_TABLE" and table["PartitionKeys"] == []
    told = table["Parameters"]
    assert (told["table_type"], told["spark.sql.sources.provider"], told["EXTERNAL"]) == ("delta", "delta", "TRUE")
    stored = table["StorageDescriptor"]
    assert stored["Location"] == stored["SerdeInfo"]["Parameters"]["path"] == "s3://bucket/lake/order"
    assert [(one["Name"], one["Type"]) for one in stored["Columns"]] == [("id", "bigint"), ("at", "timestamp")]


def test_what_others_have_written_to_a_table_stays_when_columns_come(client: Any) -> None:
    """A description, parameters, an owner: only the columns are ours to change."""
    database = fresh_name("lake").replace("-", "_")
    catalog, entry = GlueCatalog(database, client), CatalogEntry("order", "s3://bucket/lake/order", ddl_schema(DDL))
    register(catalog, entry)
    table = client.get_table(DatabaseName=database, Name="order")["Table"]
    theirs = {"Description": "orders", "Parameters": {**table["Parameters"], "team": "a"}}
    kept = {name: table[name] for name in ("Name", "TableType", "StorageDescriptor", "PartitionKeys")}
    client.update_table(DatabaseName=database, TableInput={**kept, **theirs})
    wider = CatalogEntry("order", entry.location, ddl_schema(f"{DDL}, note STRING"))
    assert register(catalog, wider)[0] == "updated"
    after = client.get_table(DatabaseName=database, Name="order")["Table"]
    assert {name: after[name] for name in theirs} == theirs
    assert [one["Name"] for one in after["StorageDescriptor"]["Columns"]] == ["id", "at", "note"]
