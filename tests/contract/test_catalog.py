"""What a catalog does, whichever it is: the fake, a Hive metastore, Glue as moto plays it, Unity as a stand-in does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.catalog.catalog import Catalog, CatalogAddress, CatalogEntry, register
from exporter.catalog.catalogs import CATALOGS
from exporter.catalog.memory import MemoryCatalog
from exporter.column.ddl import ddl_schema
from exporter.stores.store import Store
from tests.support.metastore import LocalMetastore
from tests.support.services import fresh_name
from tests.support.unity import unity

DDL = "_kafka STRUCT<topic: STRING, offset: BIGINT>, id BIGINT, day DATE"
COLUMNS = (("_kafka", "struct<topic:string,offset:bigint>"), ("id", "bigint"), ("day", "date"))


@pytest.fixture(scope="module")
def metastore() -> Iterator[str]:
    """URI of a Hive metastore."""
    with LocalMetastore() as server:
        yield server.uri


@pytest.fixture
def main(tmp_path: Path) -> Iterator[CatalogAddress]:
    """A catalog of a Unity Catalog, without a schema."""
    with unity(tmp_path) as server:
        server.catalogs["main"] = set()
        yield CatalogAddress("main.lake", server.url, str(server.token_file))


KINDS = ["memory", "glue", "unity", pytest.param("hive", marks=pytest.mark.spark)]


@pytest.fixture(params=KINDS)
def catalog(request: pytest.FixtureRequest) -> Catalog:
    """Of a database that is not there yet."""
    database = fresh_name("lake").replace("-", "_")
    if request.param == "glue":
        store: Store = request.getfixturevalue("s3")
        return CATALOGS["glue"](CatalogAddress(database, store.options["endpoint"]), None)
    if request.param == "unity":
        return CATALOGS["unity"](request.getfixturevalue("main"), None)
    if request.param == "hive":
        at = CatalogAddress(database, request.getfixturevalue("metastore"))
        return CATALOGS["hive"](at, request.getfixturevalue("spark"))
    return MemoryCatalog()


@pytest.fixture
def entry(tmp_path: Path) -> CatalogEntry:
    """A table whose name in SQL would need quotes, in a folder that is there."""
    folder = tmp_path / "order"
    folder.mkdir()
    return CatalogEntry("order", f"file://{folder}", ddl_schema(DDL))


def test_a_table_is_made_once_and_found_under_its_name(catalog: Catalog, entry: CatalogEntry) -> None:
    """The database too; who comes second finds it there."""
    assert catalog.find("order") is None
    assert register(catalog, entry) == ("made", entry.location)
    assert register(catalog, entry) == ("there", entry.location)
    catalog.make(replace(entry, location=f"{entry.location}-of-another"))
    found = catalog.find("order")
    assert found is not None and found.location == entry.location, "the first one has the name"
    assert found.columns in (None, COLUMNS)
    assert catalog.find("click") is None


def test_a_name_that_stands_for_another_place_is_left_alone(catalog: Catalog, entry: CatalogEntry) -> None:
    """And what it stands for is told."""
    register(catalog, entry)
    before = catalog.find("order")
    assert register(catalog, replace(entry, location="file:///elsewhere")) == ("elsewhere", entry.location)
    assert catalog.find("order") == before


def test_new_columns_are_told_where_a_catalog_keeps_columns(catalog: Catalog, entry: CatalogEntry) -> None:
    """Else the table's log is asked for them, and nothing is to be done."""
    register(catalog, entry)
    wider = replace(entry, schema_json=ddl_schema(f"{DDL}, note STRING"))
    keeps = catalog.find("order").columns is not None  # type: ignore[union-attr]
    assert register(catalog, wider)[0] == ("updated" if keeps else "there")
    assert register(catalog, wider)[0] == "there"
    assert catalog.find("order").columns == (wider.columns if keeps else None)  # type: ignore[union-attr]


@pytest.mark.spark
def test_spark_takes_what_is_in_a_metastore_for_a_delta_table(spark: Any, metastore: str, entry: CatalogEntry) -> None:
    """By its own eyes: an external table of Delta at that place; to drop it leaves the files."""
    database = fresh_name("lake").replace("-", "_")
    catalog = CATALOGS["hive"](CatalogAddress(database, metastore), spark)
    register(catalog, entry)
    (Path(entry.location.removeprefix("file://")) / "part-0.parquet").write_bytes(b"PAR1")
    jvm = spark._jvm
    hadoop = jvm.org.apache.hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
    hadoop.set("hive.metastore.uris", metastore)
    seen = jvm.org.apache.spark.sql.hive.HiveExternalCatalog(spark.sparkContext._jsc.sc().conf(), hadoop)
    table = seen.getTable(database, "order")
    assert table.provider().get() == "delta"
    assert table.tableType().name() == "EXTERNAL"
    assert jvm.org.apache.spark.sql.catalyst.catalog.CatalogUtils.URIToString(table.location()).endswith("/order")
    assert table.schema().isEmpty(), "the columns are the log's"
    seen.dropTable(database, "order", False, True)
    assert catalog.find("order") is None
    assert Path(entry.location.removeprefix("file://"), "part-0.parquet").exists()
