"""`evolve = "add"`: columns that nobody has written, every value in one of them or in `_rescued`, every record once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from tests.support import naive
from tests.support.documents import differences, documents
from tests.support.lakes import Export, Exports, bad, messages, seldom, undeclared, wait_until
from tests.support.services import Record, fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark]

AT = "2026-01-31T12:00:00Z"


@pytest.fixture
def export(exports: Exports) -> Exports:
    """Makes exports of fresh topics whose tables grow, without one declared column."""
    return partial(exports, types={}, new_type="table", evolve="add", new_types_max=300)


def log_of(e: Export, name: str) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The actions of each version of a table."""
    for path in sorted((e.folder(name) / "_delta_log").glob("*.json")):
        yield int(path.stem), [json.loads(line) for line in path.read_text().splitlines()]


def bare_changes(e: Export, name: str) -> list[int]:
    """The versions after the first that change the table's metadata, and nothing else."""
    return [
        version
        for version, actions in log_of(e, name)
        if version and any("metaData" in one for one in actions) and not any("add" in one for one in actions)
    ]


def is_whole(e: Export, still: str = "") -> None:
    """ONCE, and every value of every record is in a column or in `_rescued`.

    still: a type that does not grow: where its type and time stand is in neither.
    """
    naive.assert_each_once(e)
    sent = {(m.topic(), m.partition(), m.offset()): (m.key(), m.value()) for m in messages(e.kafka, e.topic)}
    for name in e.tables():
        if name != DEAD_LETTERS:
            mine = {at: value for at, (key, value) in sent.items() if key == name.encode()}
            dropped = ("$.type", "$.at") if name == still else ()
            assert differences(documents(e.table(name)), mine, dropped) == []


def nested(kind: str, number: int) -> Record:
    """A payload as a code host's webhooks have them."""
    return undeclared(
        kind, id=number, action="opened", sender={"login": f"u{number}", "id": number, "site_admin": False},
        labels=[{"name": "bug", "color": "f00"}] * (number % 3), ratio=number / 4,
        **{f"of_{kind}": {"x": [number, None]}},
    )  # fmt: skip


@pytest.mark.parametrize(("types", "commits"), [(40, 3), seldom(200, 20)])
def test_many_types_have_their_columns_from_the_first_commit_on(
    types: int, commits: int, export: Exports, spark: Any
) -> None:
    """No column is declared: each table is made with all of them, and a round is read again once at most.

    However many commits come later, none is for a schema alone.
    """
    e = export(2)
    kinds = [f"kind{number}" for number in range(types)]
    sent = {p: [nested(kind, number) for number in range(3) for kind in kinds[p::2]] for p in (0, 1)}
    e.send(sent)
    first = e.run(spark)
    assert first.totals.records <= 2 * 3 * types
    is_whole(e)
    for kind in kinds:
        assert e.columns(kind).keys() == {"type", "at", "id", "action", "sender", "labels", "ratio", f"of_{kind}"}
        assert [version for version, actions in log_of(e, kind) if any("metaData" in one for one in actions)] == [0]
        assert all(row["_rescued"] is None for row in e.rows(kind)[1:])
    with e.going(spark):
        for number in range(3, 3 + commits):
            e.send({0: [nested(kind, number) for kind in kinds[:2]]})
            wait_until(lambda rows=number + 1: len(e.rows(kinds[1])) == rows, 60, f"commit {number}")
    is_whole(e)
    assert all(not bare_changes(e, kind) for kind in kinds)


def test_the_first_record_with_a_field_has_it_in_its_column(export: Exports, spark: Any) -> None:
    """At every level, also where it comes while the task runs: the column comes with the first file that has it."""
    e = export()
    e.send({0: [undeclared("order", id=1)]})
    with e.going(spark):
        wait_until(lambda: "order" in e.tables() and len(e.rows("order")) == 1, 60, "the first record")
        for number in range(2, 12):
            e.send({0: [undeclared("order", id=number, **{f"n{number}": {"x": [{"y": number}]}})]})
            wait_until(lambda at=number: len(e.rows("order")) == at, 60, f"record {number}")
    is_whole(e)
    assert [row["_rescued"] for row in e.rows("order")] == [None] * 11
    assert e.rows("order")[5]["n6"] == {"x": [{"y": 6}]}
    assert bare_changes(e, "order") == []


def test_what_does_not_fit_stays_in_rescued_and_no_record_is_refused_for_it(export: Exports, spark: Any) -> None:
    """A verdict goes by what is declared alone (VERDICT): the same values in a declared column are dead letters."""
    e = export(types={"order": "id BIGINT"})
    e.send({0: [undeclared("order", id=1, note="text", size=5, tags=["a"], who={"name": "n"})]})
    e.run(spark)
    odd = [{"note": 7}, {"size": "large"}, {"size": 2**63}, {"tags": ["a", 1]}, {"tags": {"a": 1}}, {"who": "me"},
           {"who": {"name": 5, "more": True}}, {"size": 1.5}, {"note": None, "who": None}]  # fmt: skip
    e.send({0: [undeclared("order", id=2, **fields) for fields in odd]})
    e.send({0: [bad(b'{"type": "order", "at": "2026-01-31T12:00:00Z", "id": "text"}')]})
    e.run(spark)
    is_whole(e)
    assert len(e.rows("order")) == 1 + len(odd)
    assert e.columns("order")["who"]["fields"][1]["name"] == "more"
    e.proven(spark)


def test_values_of_several_kinds_and_crowded_objects_have_a_column_each(export: Exports, spark: Any) -> None:
    """JSON where kinds do not meet, a map where keys explode: ten thousand keys leave the columns what they are."""
    e = export()
    e.send({0: [undeclared("order", v=1), undeclared("order", v="a"), undeclared("order", v={"b": [1.50]})]})
    e.send({0: [undeclared("count", by={f"key{number}": number for number in range(500)})]})
    e.run(spark)
    before = e.columns("count")
    assert [row["v"] for row in e.rows("order")] == ["1", '"a"', '{"b": [1.5]}']
    for part in range(10):
        keys = {f"key{number}": {"n": number} for number in range(part * 1000, part * 1000 + 1000)}
        e.send({0: [undeclared("count", by=keys)]})
    e.run(spark)
    assert e.columns("count") == before
    is_whole(e)


def test_hints_limits_and_types_that_do_not_grow(export: Exports, spark: Any) -> None:
    """A hint names a type; `evolve` of a type wins over that of all."""
    e = export(keys_max=2)
    text = e.write().read_text() + (
        '\n[types.order]\nhints = { "sent" = "TIMESTAMP", "items[].due" = "DATE", "raw" = "JSON" }\n'
        '[types.still]\ncolumns = "id BIGINT"\nevolve = "off"\n'
    )
    e = written(e, text)
    e.send({0: [
        undeclared("order", sent=AT, items=[{"due": "2026-02-01"}], raw=5, o={"a": 1, "b": 2, "c": 3}),
        undeclared("order", sent="tomorrow", items=[{"due": "never"}], raw=[1, "a"]),
        undeclared("still", id=1, more=2)]})  # fmt: skip
    e.run(spark)
    is_whole(e, still="still")
    found = e.columns("order")
    assert (found["sent"], found["items"]["elementType"]["fields"][0]["type"]) == ("timestamp", "date")
    assert found["o"]["type"] == "map"
    assert [row["raw"] for row in e.rows("order")] == ["5", '[1, "a"]']
    assert e.columns("still").keys() == {"id"}


def written(e: Export, text: str) -> Export:
    """The same export with this text as its settings."""
    path = e.root / f"{fresh_name('exporter')}.toml"
    path.write_text(text)

    class Fixed(Export):
        def write(self) -> Path:
            return path

    return Fixed(e.kafka, e.topic, e.root, e.app, e.types, e.scalars)
