"""Jobs of bundles over tables that a real export made: the examples, end to end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from exporter.derive.jobs import jobs_of
from exporter.lake.lake import Lake
from tests.support.derived import derived
from tests.support.lakes import NOON, Export, Exports, millis
from tests.support.pages import PageExport
from tests.support.services import Record, fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PAGE = Path(__file__).parents[2] / "deploy" / "handbook" / "derive-bundles.md"
SALES = ("customerID", "menuID", "qty", "total")
INVOICE = ("id", "customer", "item", "invoice_status")
RULES = """
[derive.invoices]
kind = "bundles"
[derive.invoices.shape]
created = { left = "invoice", right = "status", left_key = "id", right_key = "invoice_id", where = "op IN ('c', 'r')", \
select = "left.id, left.customer, left.item, right.status AS invoice_status", output = "invoices" }
changed = { input = "status", where = "op = 'u'", select = "invoice_id AS id, status AS invoice_status", \
output = "invoices" }
moved = { input = "invoice", where = "op = 'u'", select = "id, customer, item", output = "invoices" }
"""


class Following:
    """An export and its one job: records in, run by run the rows that are new."""

    def __init__(self, e: Export, spark: Any, columns: tuple[str, ...]) -> None:
        self.e, self._spark, self._columns = e, spark, columns
        self.sent = 0
        self.shown = 0
        settings = e.settings()
        self.lake = Lake(spark, settings.store, settings.app)
        (self.job,) = jobs_of(settings, self.lake)

    def gives(self, *values: dict[str, Any]) -> list[tuple[Any, ...]]:
        """What the job makes of records that come now, in its order."""
        records = []
        for value in values:
            self.sent += 1
            text = {"at": "2026-01-31T12:00:00Z", **value}
            records.append(Record(b"k", json.dumps(text).encode(), timestamp_ms=millis(NOON) + self.sent))
        self.e.send({0: records})
        self.e.run(self._spark)
        assert not self.job.run().idle
        assert self.job.run().idle
        rows = sorted((row for row in derived(self.lake, self.job.name) if row["_seq"]), key=lambda row: row["_seq"])
        assert [row["_seq"] for row in rows] == [*range(1, len(rows) + 1)]
        new, self.shown = rows[self.shown :], len(rows)
        return [tuple(row[name] for name in self._columns) for row in new]


def order(txn: int, customer: str, product: str, qty: int) -> dict[str, Any]:
    return {"type": "order", "txn": txn, "done": False, "customer": customer, "product": product, "qty": qty}


def menu(txn: int, product: str, price: float) -> dict[str, Any]:
    return {"type": "menu", "txn": txn, "done": True, "product": product, "price": price}


@pytest.mark.long
def test_an_order_waits_for_its_price(kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any) -> None:
    """By the settings of the page: the first order's row, then the second one's, then nothing."""
    text = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.S)[0]
    assert len(text.splitlines()) <= 15
    e = PageExport(kafka, topic(), tmp_path, fresh_name("app"), more=text)
    f = Following(e, spark, SALES)
    first = f.gives(order(10000, "jane", "taco", 2), order(10001, "bob", "burrito", 1), menu(10000, "taco", 1.99))
    assert first == [(1, 200, 2, Decimal("3.98"))]
    assert f.job.status().facts["members open"] == 1
    assert f.gives(menu(10001, "burrito", 5.99)) == [(2, 100, 1, Decimal("5.99"))]
    assert f.job.status().facts["members open"] == 0
    assert [line for line in f.job.audit() if not line.clean] == []


def invoice(op: str, id: int, customer: str, item: str) -> dict[str, Any]:
    return {"type": "invoice", "op": op, "id": id, "customer": customer, "item": item}


def status(op: str, id: int, invoice_id: int, text: str) -> dict[str, Any]:
    return {"type": "status", "op": op, "id": id, "invoice_id": invoice_id, "status": text}


def test_invoices_are_joined_with_their_status(exports: Exports, spark: Any) -> None:
    """Batch by batch: what is read at first, one without its status, that status and changes."""
    types = {
        "invoice": "op STRING, id BIGINT, customer STRING, item STRING",
        "status": "op STRING, id BIGINT, invoice_id BIGINT, status STRING",
    }
    e = replace(exports(types=types), more=RULES)
    f = Following(e, spark, INVOICE)
    assert f.gives(
        invoice("r", 100, "Alice", "taco"), invoice("r", 101, "Bob", "burrito"),
        status("r", 80, 101, "pending"), status("r", 32, 100, "pending"),
    ) == [(101, "Bob", "burrito", "pending"), (100, "Alice", "taco", "pending")]  # fmt: skip
    assert f.gives(
        invoice("c", 102, "Charlie", "enchilada"), invoice("c", 103, "Dan", "beans"), status("c", 77, 102, "pending")
    ) == [(102, "Charlie", "enchilada", "pending")]
    changes = status("u", 32, 100, "closed"), status("u", 192, 103, "collections"), status("u", 77, 102, "paid")
    assert f.gives(status("c", 192, 103, "pending"), *changes) == [
        (103, "Dan", "beans", "pending"), (100, None, None, "closed"), (103, None, None, "collections"),
        (102, None, None, "paid"),
    ]  # fmt: skip
    assert [line for line in f.job.audit() if not line.clean] == []
