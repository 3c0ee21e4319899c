"""Changes of all kinds, good and damaged, against the audit's reading; each alone as in a batch (ROUTE)."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest

from exporter.arrow.kafka_time import US
from exporter.core.columns import EVOLVED
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas
from exporter.core.value_format import ValueFormat
from exporter.formats.decoder import Decoder
from exporter.proof.contents.changes import differences
from exporter.proof.contents.compare import Configured
from exporter.proof.readers.reader import NoGoodRecord, SentValue, Undecided
from exporter.proof.readers.reading import ValueReading
from offsets.ranges import TopicPartition
from tests.support.decoded_rows import columns, routing_of, rows_of
from tests.support.envelope_samples import (
    AT_MS,
    DAY,
    KAFKA_US,
    MONGO,
    MYSQL,
    POSTGRES,
    UNAVAILABLE,
    UNAVAILABLE_BASE64,
    changed,
    dms,
    dms_control,
    envelope_schema,
    text,
    with_schema,
)
from tests.support.not_sent import is_hidden

ROUNDS = int(os.environ.get("ENVELOPE_ROUNDS", "40"))
"""Batches per format; a long run sets more."""
BATCH = 40
COLUMNS = {"id": "bigint", "name": "string", "d": "date", "at": "timestamp", "price": "decimal(10,2)", "doc": "string"}

VALUES: dict[str, Sequence[Any]] = {
    "id": (7, -(2**63), 2**63, None, "x", 1.5, True),
    "name": ("x", "", "é", None, 5, UNAVAILABLE, UNAVAILABLE_BASE64, [UNAVAILABLE]),
    "d": (DAY, "2026-01-31", None, "x", -1, 10**8, 2.5),
    "at": (None, "2026-01-31T12:00:00Z", AT_MS * 1000, "x", "2026-01-31T12:00:00.1234567Z", "2026-01-31T24:00:00Z",
           "2026-01-31T12:00:00.5+01:00"),
    "price": ("12.34", 12.5, None, "BNI=", UNAVAILABLE_BASE64, "1.234", 10**9, [1]),
    "doc": ("x", UNAVAILABLE, None, {UNAVAILABLE: UNAVAILABLE}, [*UNAVAILABLE.encode()]),
    "more": (5, {"a": [1, {"b": None}]}, None, UNAVAILABLE, 1e300, "\\/"),
}
UUID = "yCpvGdKkTLeLOFb3Y2BSmQ=="
EXTENDED: Sequence[Any] = (
    {"$oid": "5f50d2c2e1d2a1b6a1b6a1b6"}, {"$numberLong": "5"}, {"$numberLong": "x"}, {"$numberInt": "99999999999"},
    {"$date": AT_MS}, {"$date": {"$numberLong": str(AT_MS)}}, {"$date": "2026-01-31T12:00:00Z"}, {"$date": 2**62},
    {"$numberDecimal": "1.50"}, {"$numberDouble": "1.5"}, {"$numberDouble": "NaN"}, {"$undefined": True},
    {"$binary": {"base64": "aGk=", "subType": "00"}}, {"$timestamp": {"t": 1, "i": 2}}, {"$minKey": 1},
    {"$numberInt": "2147483648"}, {"$numberInt": "-2147483648"}, {"$numberInt": "007"}, {"$numberLong": str(2**63)},
    {"$date": -1}, {"$date": -62_135_596_800_001}, {"$date": 253_402_300_799_999}, {"$symbol": "s"}, {"$uuid": "u"},
    {"$binary": {"base64": UUID, "subType": "04"}}, {"$binary": UUID, "$type": "4"}, {"$type": "4", "$binary": UUID},
    {"$binary": {"base64": UUID, "subType": "03"}}, {"$binary": {"base64": "aGk", "subType": "04"}},
    math.nan, math.inf, -math.inf, [-math.inf, "NaN", "\\NaN\""], {"NaN": math.nan}, {"$numberDouble": math.nan},
)  # fmt: skip


class Sender:
    """Makes values of one format, most of them nearly good."""

    def __init__(self, form: ValueFormat, seed: int) -> None:
        self._form = form
        self._random = random.Random(seed)

    def value(self) -> bytes | None:
        """One value."""
        some = self._random
        if some.random() < 0.02:
            return None
        change: Any = deepcopy(self._change())
        if some.random() < 0.1:
            self._bend(change)
        if self._form.kind == "connect_json":
            schemas = [envelope_schema(), envelope_schema(), None, {"type": "x"}, 5]
            if self._form.envelope == "none":
                schemas = [envelope_schema()["fields"][1], None, {"type": "struct"}]
            change = with_schema(some.choice([change] * 20 + [None, [], 5]), some.choice(schemas))
            if some.random() < 0.05:
                self._bend(change)
        raw = text(change) if some.random() < 0.7 else json.dumps(change, ensure_ascii=some.random() < 0.5).encode()
        return raw if some.random() < 0.8 else self._damaged(raw)

    def _row(self) -> dict[str, Any]:
        some, good = self._random, self._random.random() < 0.6
        row = {}
        for name, values in VALUES.items():
            if some.random() < 0.7:
                usual = values[name == "d" and self._form.semantic_types == "none"]
                row[name] = usual if good and some.random() < 0.8 else some.choice(values)
        if self._form.envelope == "debezium_mongo" and some.random() < 0.7:
            row[some.choice(list(VALUES))] = some.choice(EXTENDED)
            row["_id"] = some.choice([EXTENDED[0], [some.choice(EXTENDED)], {"in": some.choice(EXTENDED)}])
        return row

    def _change(self) -> Any:
        some = self._random
        if self._form.envelope == "none":
            return self._row()
        if self._form.envelope == "dms":
            op = some.choice(["load", "insert", "update", "delete", "merge"])
            control = some.random() < 0.1
            image = {"before-image": self._row()} if some.random() < 0.3 else {}
            return dms_control("drop-table") if control else dms(op, some.choice([self._row(), None, 5]), **image)
        op = some.choice("crudcrudtmx")
        rows: dict[str, Any] = {"before": some.choice([self._row(), None]), "after": some.choice([self._row(), None])}
        source = some.choice([MYSQL, POSTGRES])
        source = {**source, "ts_us": some.choice([source["ts_us"], source["ts_us"] + 456, None])}
        if self._form.envelope == "debezium_mongo":
            source, rows = MONGO, {k: None if v is None else json.dumps(v) for k, v in rows.items()}
        elif some.random() < 0.8:
            rows["before" if op == "d" else "after"] = self._row()
        return changed(source, op, **rows)

    def _bend(self, change: Any) -> None:
        """Another value somewhere."""
        some, at = self._random, change
        while at:
            name = some.choice(list(at))
            if not isinstance(at[name], dict) or not at[name] or some.random() < 0.3:
                break
            at = at[name]
        else:
            return
        at[name] = some.choice([None, 5, "x", [], {}, 1.5, True, 2**70, "{}", [UNAVAILABLE]])
        if some.random() < 0.3:
            del at[name]

    def _damaged(self, raw: bytes) -> bytes:
        some, at = self._random, self._random.randrange(len(raw))
        twin = b'{"op":"c","metadata":{},"schema":null,'
        return some.choice([
            raw[:at], raw + b"}", raw + raw, raw + b" ", b"\xef\xbb\xbf" + raw, raw.replace(b"{", twin, 1), b"", b"[]",
            raw.replace(b'"db"', b'"db":"x","db"'), raw.replace(b":null", b":NaN", 1), raw.replace(b":null", b":-0", 1),
            raw.replace(b'"x"', b'"\xff"'), raw.replace(b'"x"', b'"\\ud800"'), raw.replace(b'"x"', b'"\\u003a"'),
            raw.replace(b":7", b":1e400"), raw.replace(b'"id"', b'"\\u0069d"'), raw.replace(b"}}", b"}},{", 1),
        ])  # fmt: skip


FORMS = {
    "debezium": ValueFormat(envelope="debezium", semantic_types="connect"),
    "untold": ValueFormat(envelope="debezium"),
    "mongo": ValueFormat(envelope="debezium_mongo"),
    "dms": ValueFormat(envelope="dms"),
    "connect": ValueFormat("connect_json"),
    "connect_debezium": ValueFormat("connect_json", envelope="debezium", semantic_types="connect"),
}


def asking(form: ValueFormat, **more: Any) -> Routing:
    """Of the type public.orders."""
    return routing_of(columns(**{**COLUMNS, "id": "long"}), form, **more)


def decoded(decoder: Decoder, values: Sequence[bytes | None]) -> list[Any]:
    """Per value the row as Python has it, or the reason."""
    return rows_of(decoder.decode(pa.array(values, pa.binary()), pa.array([KAFKA_US] * len(values), US)))


NO_ROW = {"no_envelope", "no_image", "unknown_op", "bad_envelope", "cdc_truncate", "cdc_message", "cdc_control",
          "partial_update"}  # fmt: skip
WHY = (
    ("a key occurs twice", {"duplicate_key"}),
    ("no object", {"not_object"}),
    ("no payload", {"no_envelope"}),
    ("the payload", {"not_object", "tombstone", "bad_schema"}),
    ("an envelope without a row", NO_ROW | {"bad_schema"}),
)
"""How the audit's words for what is no good record begin, and the codes that it may have; else it is no JSON."""
OF_COLUMNS = {"type_mismatch", "out_of_range", "unknown_unit"}


def read_by(reading: ValueReading, value: bytes | None) -> SentValue | NoGoodRecord | None:
    """What the audit reads of a value, or why it is none; None if it cannot tell."""
    if value is None:
        return NoGoodRecord("the payload is null")
    try:
        return reading.read(value, TopicPartition("t", 0), 0)
    except NoGoodRecord as bad:
        return bad
    except Undecided:
        return None


class Compared:
    """Rows and dead letters of one format beside what the audit reads. told: paths of what was changed and found."""

    def __init__(self, form: ValueFormat) -> None:
        self._hides = form.envelope == "debezium"
        self._asked = form.before
        routing = asking(form)
        self._configured = Configured.of(routing, "public.orders", routing.schemas["public.orders"])
        self._columns = {one: self._configured.root.fields[one] for one in form.before}
        self.taken, self.refused = set[tuple[str, str]](), set[tuple[str, str]]()
        self.rows = 0
        self.codes, self.told = set[str](), set[str]()

    def dead_letter(self, reason: str, sent: SentValue | NoGoodRecord) -> bool:
        """Whether a reason goes with what the audit reads, which is no judge of columns and schemas."""
        code, _, what = reason.partition(": ")
        self.codes.add(code)
        if code == "not_json" and "surrogate" in what:
            return True
        if isinstance(sent, NoGoodRecord):
            return code in next((some for words, some in WHY if str(sent).startswith(words)), {"not_json", "not_utf8"})
        if code not in OF_COLUMNS:
            return code in ("bad_schema", "bad_envelope")
        column = what.split(" ")[0].removeprefix("$.")
        self.refused.add((column, repr(sent.document[column])))
        return self._is_sent(sent.document[column])

    def _is_sent(self, value: Any) -> bool:
        return value is not None and not (self._hides and is_hidden(value))

    def row(self, value: bytes, row: dict[str, Any], sent: SentValue | NoGoodRecord) -> bool:
        """Whether a row is what the audit reads: each column that was sent is filled, and all else is in `_rescued`."""
        if isinstance(sent, NoGoodRecord):
            return False
        self.rows += 1
        held = {one: _held(row[one]) for one in COLUMNS if row[one] is not None}
        self.taken |= {(column, repr(sent.document.get(column))) for column in held}
        found, worse = (
            self._configured.differences(value, one, row["_rescued"], KAFKA_US, lambda _: sent.document)
            for one in (held, {**held, "id": 8})
        )
        self.told |= {one.path for one in worse}
        filled = {name for name in COLUMNS if self._is_sent(sent.document.get(name))} == held.keys()
        return filled and not found and (not self._asked or self._change(row, sent))

    def _change(self, row: dict[str, Any], sent: SentValue) -> bool:
        cdc = {one: _held(value) for one, value in row["_cdc"].items()}
        both = {"_cdc_before": cdc.pop("before"), "_cdc": {**cdc, "key": "k"}}
        worse = [{**both, "_cdc": {**both["_cdc"], cell: 5}} for cell in cdc]
        worse += [{**both, "_cdc_before": one} for one in ('{"id":-1,"name":"?","doc":"?"}', None)]
        found, *others = (
            [one.path for one in differences(sent.change, b"k", sent.document, some, self._columns)]
            for some in (both, *worse)
        )
        self.told.update(*others)
        return not found


@pytest.mark.parametrize("name", FORMS)
def test_what_is_made_of_a_value_is_what_the_audit_reads(name: str) -> None:
    """Columns and `_rescued` are the row that was sent, and its change is what was done to it; a dead letter is none of
    the audit's either, or has a value that no column takes; each value alone is as in its batch. What is changed of a
    row is found."""
    asked = ("id", "name", "doc") if FORMS[name].envelope != "none" else ()
    form = replace(FORMS[name], before=asked)
    routing, reading, compared = asking(form), ValueReading(form, KnownSchemas()), Compared(form)
    sender, decoder = Sender(form, 7), Decoder.of("public.orders", routing)
    for _ in range(ROUNDS):
        values = [sender.value() for _ in range(BATCH)]
        batch = decoded(decoder, values)
        for at in range(0, BATCH, 7):
            assert decoded(Decoder.of("public.orders", routing), [values[at]]) == [batch[at]]
        for value, found in zip(values, batch, strict=True):
            if (sent := read_by(reading, value)) is not None:
                is_dead = isinstance(found, str)
                assert compared.dead_letter(found, sent) if is_dead else compared.row(value or b"", found, sent), (
                    value, found, sent,
                )  # fmt: skip
    assert not compared.taken & compared.refused, "whether a column takes a value depends on that value alone"
    changed_cells = [f"_cdc.{one}" for one in ("op", "ts", "source", "key", "pos")]
    changed_cells += ["_cdc_before", "_cdc_before.name"]
    assert {"$.id", *(f"$.{one}" for one in changed_cells if asked)} <= compared.told
    assert compared.rows > BATCH * ROUNDS / 12 and {"not_json", "tombstone", "type_mismatch"} <= compared.codes


@pytest.mark.parametrize("policy", ["rescue", "ignore", "dead_letter"])
@pytest.mark.parametrize("name", ["debezium", "mongo", "dms", "connect_debezium"])
def test_alone_is_as_in_a_batch_where_type_and_time_are_the_envelope_s(name: str, policy: Any) -> None:
    """With each policy for unknown fields; what an oracle's row has no say in."""
    sender = Sender(FORMS[name], 8)
    time = EventTime("json", "metadata.timestamp") if name == "dms" else EventTime("json", "source.ts_ms", "ms")
    routing = replace(asking(FORMS[name], type_from=TypeFrom("source"), event_time=time), unknown_fields=policy)
    decoder = Decoder.of("public.orders", routing)
    for _ in range(ROUNDS // 8):
        values = [sender.value() for _ in range(BATCH)]
        batch = decoded(decoder, values)
        assert [decoded(Decoder.of("public.orders", routing), [value])[0] for value in values] == batch


@pytest.mark.parametrize("policy", ["rescue", "ignore", "dead_letter"])
@pytest.mark.parametrize("name", FORMS)
def test_columns_that_nobody_declared_change_no_verdict(name: str, policy: Any) -> None:
    """VERDICT: a change is a row or not, and why, by what is declared; its declared columns and `_cdc` are the same."""
    form = FORMS[name]
    whole = json.loads(asking(form).schemas["public.orders"])["fields"]
    declared = json.dumps({"type": "struct", "fields": whole[:2]})
    grown = whole[:2] + [{**field, "metadata": {EVOLVED: "t/0/0"}} for field in whole[2:]]
    routing = replace(asking(form), types=(("public.orders", declared),), unknown_fields=policy)
    wider = json.dumps({"type": "struct", "fields": grown})
    plain, wide = (Decoder.of("public.orders", routing, one) for one in (None, wider))
    sender = Sender(form, 10)
    for _ in range(ROUNDS // 8):
        values = pa.array([sender.value() for _ in range(BATCH)], pa.binary())
        kafka = pa.array([KAFKA_US] * BATCH, US)
        one, other = plain.decode(values, kafka), wide.decode(values, kafka)
        assert (one.good, one.bad) == (other.good, other.bad)
        kept = [name for name in one.table.column_names if name != "_rescued"]
        assert other.table.select(kept) == one.table.select(kept)


def _held(value: Any) -> Any:
    """A value of a column as the audit is given it."""
    if isinstance(value, datetime):
        return pa.scalar(value, US).cast(pa.int64()).as_py()
    if isinstance(value, date):
        return pa.scalar(value, pa.date32()).cast(pa.int32()).as_py()
    return value
