"""`exporter catalog` and what `check` says of a catalog, over a lake of empty logs. No JVM, no network."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from exporter.catalog.catalog import CatalogEntry, CatalogTable
from exporter.catalog.catalogs import CATALOGS
from exporter.catalog.memory import MemoryCatalog
from exporter.cli.main import cli
from exporter.errors import ConfigError
from exporter.operate.catalog import check_catalog, register_all, statements
from exporter.settings.load import load
from exporter.settings.model import Settings
from exporter.stores.stores import open_store
from offsets.names import table_folder
from tests.support.settings import TOML


class Tables:
    """A lake as the registrar sees it."""

    session = None

    def __init__(self, root: Path, *names: str) -> None:
        self.store, self._names = open_store(str(root)), names
        for name in names:
            (root / table_folder(name) / "_delta_log").mkdir(parents=True)

    def event_types(self) -> tuple[str, ...]:
        return tuple(sorted(self._names))

    def table(self, name: str) -> Any:
        class Table:
            uri = self.store.uri(table_folder(name))

            @staticmethod
            def view() -> Any:
                class View:
                    schema_json, fingerprint = '{"type":"struct","fields":[{"name":"id","type":"long"}]}', "f"

                return View

        return Table


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> MemoryCatalog:
    made = MemoryCatalog()
    monkeypatch.setitem(CATALOGS, "hive", lambda at, session: made)
    return made


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., Settings]:
    def written(*lines: str) -> Settings:
        path = tmp_path / "exporter.toml"
        path.write_text("\n".join((*lines, TOML.replace("/data/tables", str(tmp_path / "lake")))))
        return load(path, {}, {})

    return written


HIVE = ('catalog = "hive"', 'catalog_database = "lake"')


def test_derived_tables_have_statements_too(tmp_path: Path, settings: Callable[..., Settings]) -> None:
    """After all others; one whose name is an exported table's has none."""
    Tables(tmp_path / "lake", "order")
    for job in ("Order", "daily-orders"):
        (tmp_path / "lake" / "_derived.tables" / job / "_delta_log").mkdir(parents=True)
    found = [(one.event_type, one.name) for one in statements(settings(HIVE[1]), "spark")]
    assert found == [("", "lake"), ("order", "order"), ("_derived.tables/daily-orders", "daily_orders")]
    assert statements(settings(HIVE[1]), "spark")[-1].text.count("_derived.tables/daily-orders") == 1


def test_the_statements_of_all_tables_are_printed(tmp_path: Path, settings: Callable[..., Settings]) -> None:
    """The database first; as JSON, a line each. Of two tables that want one name the second is told on stderr."""
    Tables(tmp_path / "lake", "order", "Order.Placed", "order-placed", "dead_letters")
    settings(HIVE[1])
    arguments = ["catalog", "--config", str(tmp_path / "exporter.toml")]
    shown = CliRunner().invoke(cli, arguments)
    assert shown.exit_code == 0, shown.output
    root = f"file://{tmp_path}/lake"
    assert shown.stdout.splitlines() == [
        "CREATE DATABASE IF NOT EXISTS `lake`;",
        f"CREATE TABLE IF NOT EXISTS `lake`.`order_placed` USING DELTA LOCATION '{root}/Order~2EPlaced';",
        f"CREATE TABLE IF NOT EXISTS `lake`.`dead_letters` USING DELTA LOCATION '{root}/dead_letters';",
        f"CREATE TABLE IF NOT EXISTS `lake`.`order` USING DELTA LOCATION '{root}/order';",
    ]
    assert shown.stderr.splitlines()[-1] == "order-placed: order_placed stands for Order.Placed already"
    told = CliRunner().invoke(cli, [*arguments, "--dialect", "duckdb", "--types", "order", "--format", "json"])
    assert [json.loads(line)["event_type"] for line in told.stdout.splitlines()] == ["", "order"]
    assert f"delta_scan('{root}/order')" in told.stdout
    refused = CliRunner().invoke(cli, [*arguments, "--types", "nobody"])
    assert isinstance(refused.exception, ConfigError)


def test_all_tables_are_registered_by_hand(
    tmp_path: Path, settings: Callable[..., Settings], catalog: MemoryCatalog
) -> None:
    """Each tells what became of it; without a catalog that is an error."""
    lake: Any = Tables(tmp_path / "lake", "order", "click")
    catalog.make(CatalogEntry("click", "file:///elsewhere"))
    found = {name: became.outcome for name, became in register_all(settings(*HIVE), lake)}  # type: ignore[union-attr]
    assert found == {"order": "made", "click": "elsewhere"}
    catalog.error = ConnectionRefusedError("nobody listens")
    assert dict(register_all(settings(*HIVE), lake, ["order"])) == {"order": "ConnectionRefusedError: nobody listens"}
    with pytest.raises(ConfigError, match="no catalog"):
        list(register_all(settings(), lake))


def test_check_tells_what_a_catalog_has(
    tmp_path: Path, settings: Callable[..., Settings], catalog: MemoryCatalog
) -> None:
    """Nothing without one; else how many tables, which names are taken, and which are wanted twice."""
    lake: Any = Tables(tmp_path / "lake", "order", "click", "Order")
    assert list(check_catalog(settings(), lake)) == []
    catalog.tables = {"order": CatalogTable(f"file://{lake.store.uri('Order')}", ()), "click": CatalogTable("file:///elsewhere")}
    found = [(one.level, one.says) for one in check_catalog(settings(*HIVE), lake)]
    assert found == [
        ("warn", "Order and order would both be order: the one that is registered first has the name"),
        ("ok", "hive, database lake: 1 of 3 tables are registered"),
        ("warn", "click stands for file:///elsewhere, not for the table of click; it is left alone"),
        ("warn", f"order stands for file://{lake.store.uri('Order')}, not for the table of order; it is left alone"),
    ]
    assert catalog.tables.keys() == {"order", "click"}, "nothing is registered by it"


def test_a_catalog_that_fails_or_hangs_is_a_warning_of_check(
    tmp_path: Path, settings: Callable[..., Settings], catalog: MemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not an error: a task starts all the same. It is not waited for."""
    lake: Any = Tables(tmp_path / "lake", "order")
    catalog.error = ConnectionRefusedError("nobody listens")
    (one,) = check_catalog(settings(*HIVE), lake)
    assert (one.level, one.says) == ("warn", "ConnectionRefusedError: nobody listens")
    assert "tasks export all the same" in one.hint
    closed = threading.Event()
    monkeypatch.setattr(catalog, "find", lambda name: closed.wait(60))
    began = time.monotonic()
    (one,) = check_catalog(settings(*HIVE), lake, wait_secs=0.2)
    closed.set()
    assert (one.level, one.says) == ("warn", "no answer within 0.2 s")
    assert time.monotonic() - began < 30
