"""Rules of routing and of rows, from the settings to the tables: each record's fate is written down beside it.

    Case(value, {table: columns of its row}, dead=[(event type, stage)], filtered={table})

One export has many cases; what is in no table and no dead letter has to be in the counts that the commits tell.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from exporter.core.routing import DEAD_LETTERS
from tests.support import naive
from tests.support.lakes import NOON, Export, Exports, millis, seldom
from tests.support.naive_rules import NOTHING_PLAIN, Plain
from tests.support.services import Record, fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]

AT = "2026-01-31T12:00:00Z"


@dataclass(frozen=True)
class Case:
    """What is sent, and what has to become of it. value: beside `at`; bytes are sent as they are.

    rows: table -> some columns of the row. dead: event type and begin of the reason of each dead letter. filtered:
    tables that leave it out; the dead letters, if it is of no table and counted.
    """

    value: Mapping[str, Any] | bytes | None
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dead: Sequence[tuple[str, str]] = ()
    filtered: frozenset[str] = frozenset()
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()

    @property
    def record(self) -> Record:
        value = self.value if not isinstance(self.value, Mapping) else json.dumps({"at": AT, **self.value}).encode()
        return Record(self.key, value, self.headers, millis(NOON))


def fates(e: Export, cases: Sequence[Case]) -> None:
    """Each case is where it has to be, and nowhere else; the topic has nothing but the cases, in partition 0."""
    rows = {name: {row["_kafka"]["offset"]: row for row in e.rows(name)} for name in e.tables() if name != DEAD_LETTERS}
    dead_letters: dict[int, list[tuple[str, str]]] = {}
    for row in e.rows(DEAD_LETTERS):
        dead_letters.setdefault(row["_kafka"]["offset"], []).append((row["event_type"] or "", row["reason"]))
    wrong = []
    for offset, case in enumerate(cases):
        held = {name: of_table[offset] for name, of_table in rows.items() if offset in of_table}
        seen = {name: {column: held[name].get(column) for column in case.rows.get(name, {})} for name in held}
        found, dead = sorted(dead_letters.get(offset, [])), sorted(case.dead)
        told = [of == name and text.startswith(why) for (of, text), (name, why) in zip(found, dead, strict=False)]
        if seen != case.rows or len(found) != len(dead) or not all(told):
            wrong.append(f"{case.value!r}: is {seen} and {found}, should be {case.rows} and {dead}")
    assert not wrong, "\n".join(wrong)
    assert sum(len(e.rows(name)) for name in rows) == sum(len(case.rows) for case in cases)
    assert counted(e) == Counter(name for case in cases for name in case.filtered)


def counted(e: Export) -> Counter[str]:
    """Table -> how many records its commits say they left out."""
    found: Counter[str] = Counter()
    for name in e.tables():
        for file in e.log(name):
            for line in e.place.read(file).decode().splitlines():
                said = json.loads(json.loads(line).get("commitInfo", {}).get("userMetadata") or "{}")
                found[name] += sum(one.get("filtered", 0) for one in said.get("partitions", {}).values())
    return +found


def checked(e: Export, spark: Any, cases: Sequence[Case], plain: Plain = NOTHING_PLAIN) -> None:
    """Export them, and let this file, the naive checker and the audit look. plain: what their SQL says, in Python."""
    e.send({0: [case.record for case in cases]})
    e.run(spark)
    fates(e, cases)
    e.proven(spark)
    assert naive.findings(e, plain=plain) == []


# --- which tables take a record -----------------------------------------------------------------

RENAMES = r"""
rename = [
    {match = '(.*)[.]v[0-9]+', to = '$1'},
    {match = 'legacy_(?P<kind>.*)', to = '${kind}'},
    {match = 'x(.*)', to = 'order$1'},
    {match = 'x_special', to = 'click'},
    {match = 'dollar', to = '$$'},
    {match = '(?s)wrapped:(.*)', to = '$1'},
]
"""
MATCHES = {
    "order": "match = 'order.*'",
    "vip": "match = 'order_(vip|gold)|é+'",
    "click": "",
    "UPPER": "",
    "$": "",
}


def sent(text: str, *tables: str, name: str | None = None) -> Case:
    """A record of an event type. tables: those that take it; none: it is unrouted. name: what it is called then."""
    n = crc32(text.encode())
    rows = {table: {"n": n} for table in tables}
    return Case({"type": text, "n": n}, rows, [] if tables else [(text if name is None else name, "unknown_type")])


ROUTED = [
    sent("order", "order"),
    sent("order_vip", "order", "vip"),
    sent("order_gold", "order", "vip"),
    sent("order_golden", "order"),
    sent("a_order_vip"),
    sent("Order"),
    sent("ORDER_VIP"),
    sent("order\n"),
    sent("order\nvip"),
    sent("order ", "order"),
    sent(" order"),
    sent("ördér"),
    sent("éé", "vip"),
    sent("e\u0301"),
    sent("vip"),
    sent("click", "click"),
    sent("click.v2", "click", name="click"),
    sent("click.v", name="click.v"),
    sent("click.v2.v3", name="click.v2"),
    sent("order_vip.v7", "order", "vip"),
    sent("legacy_click", "click"),
    sent("legacy_click.v2", name="legacy_click"),
    sent("legacy_", name=""),
    sent("x", "order"),
    sent("x_special", "order"),
    sent("x_vip", "order", "vip"),
    sent("dollar", "$"),
    sent("$1"),
    sent("${kind}"),
    sent("UPPER", "UPPER"),
    sent("upper"),
    sent("wrapped:../../order", name="../../order"),
    sent("wrapped:dead_letters", name="dead_letters"),
    sent("wrapped:order\n", name="order\n"),
    sent("../order"),
    sent("order/../../up", "order"),
    sent("order\u202e", "order"),
    sent("order😀" * 40, "order"),
    sent("dead_letters"),
    sent("("),
    sent("7"),
    sent("true"),
    sent('{"a": 1}'),
    sent("[order]"),
    sent("o" * 2_000),
    Case({"n": 1}, dead=[("", "no_type")]),
    Case({"type": None, "n": 1}, dead=[("", "no_type")]),
    Case({"type": "", "n": 1}, dead=[("", "no_type")]),
    Case({"type": 7, "n": 1}, dead=[("", "no_type")]),
    Case({"type": True, "n": 1}, dead=[("", "no_type")]),
    Case({"type": ["order"], "n": 1}, dead=[("", "no_type")]),
    Case({"type": {"order": 1}, "n": 1}, dead=[("", "no_type")]),
    Case(None, dead=[("", "tombstone")]),
    Case(b"\xff\xfe", dead=[("", "")]),
    Case({"type": "order_vip", "n": "many"}, dead=[("order", ""), ("vip", "")]),
    Case(b'{"type": "order_vip", "n": 1, "at": "no time"}', dead=[("order", ""), ("vip", "")]),
]
"""In the order of their offsets."""


def routed(unrouted: str) -> list[Case]:
    """The same with another policy: what says its event type and is of no table."""
    if unrouted == "dead_letter":
        return ROUTED
    fate: dict[str, Any] = {"dead": (), "filtered": frozenset([DEAD_LETTERS])}
    changed = []
    for case in ROUTED:
        if not any(reason == "unknown_type" for _, reason in case.dead):
            changed.append(case)
        elif unrouted == "count":
            changed.append(Case(case.value, **fate))
        else:
            changed.append(Case(case.value, {unrouted: {"n": case.value["n"]}}))  # type: ignore[index, call-overload]
    return changed


@pytest.mark.parametrize("unrouted", ["dead_letter", "count", seldom("click")])
def test_each_record_is_in_every_table_that_its_event_type_fits(
    unrouted: str, exports: Exports, tmp_path: Path, spark: Any
) -> None:
    """Renames in their order, overlapping matches, hostile names; what no table takes is told, counted, or of one."""
    types = dict.fromkeys(MATCHES, "n BIGINT")
    e = exports(types=types, unrouted=unrouted, cuts=MATCHES, type_from=f'kind = "json"\nname = "type"\n{RENAMES}')
    checked(e, spark, routed(unrouted))
    assert {*e.tables()} <= {*MATCHES, DEAD_LETTERS}
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"lake"}


def test_topics_go_to_tables_by_a_rule_and_to_all_that_match_everything(
    kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    """Three topics by one regular expression into tables of a prefix; two tables have the records of all topics."""
    topics = [topic() for _ in range(3)]
    own = [f"lake_{name.removesuffix('.v1')}" for name in topics]
    types = dict.fromkeys([*own, "all", "everything"], "n BIGINT")
    e = Export(
        kafka, topics[0], tmp_path, fresh_name("app"), types, {"topics": topics},
        type_from="kind = 'topic'\nrename = [{match = '(.*)[.]v1', to = 'lake_$1'}]",
        cuts=dict.fromkeys(["all", "everything"], "match = '.*'"),
    )  # fmt: skip
    for at, name in enumerate(topics):
        produce(kafka, name, {0: [Case({"n": at * 10 + number}).record for number in range(4)]})
    e.run(spark)
    numbers = {name: sorted(row["n"] for row in e.rows(name)) for name in e.tables() if name != DEAD_LETTERS}
    wanted = [[at * 10 + number for number in range(4)] for at in range(3)]
    every = [number for of_topic in wanted for number in of_topic]
    assert numbers == dict(zip(own, wanted, strict=True)) | dict.fromkeys(["all", "everything"], every)
    for name in topics:
        assert {e.position(table, topic=name) for table in e.tables()} == {(0, 3)}, "by the topic's own name"
    assert not e.rows(DEAD_LETTERS)
    assert naive.findings(e) == []


# --- what becomes of a row ----------------------------------------------------------------------

SHAPES = {
    "both": ("n BIGINT, flag BOOLEAN", "where = 'n > 10 AND flag'"),
    "either": ("n BIGINT, flag BOOLEAN", "where = 'n > 10 OR flag'"),
    "not": ("n BIGINT", "where = 'NOT (n > 10)'"),
    "never": ("n BIGINT", "where = 'n NOT IN (1, NULL)'"),
    "distinct": ("n BIGINT", "where = 'n IS DISTINCT FROM 10'"),
    "named": ("name STRING", """where = "name = 'Zoë 😀' OR starts_with(name, 'ß')"\n[types.named.set]\n"""
              "big = 'upper(name)'\nsize = 'length(name)'\nfirst_one = 'name[1]'"),
    "tenth": ("text STRING, n BIGINT", "[types.tenth.set]\nnumber = 'CAST(text AS BIGINT)'\nhalf = 'n // 2'"),
    "guarded": ("text STRING", """where = "text <> 'x'"\n[types.guarded.set]\nnumber = 'CAST(text AS BIGINT)'"""),
    "asked": ("text STRING", "where = 'CAST(text AS BIGINT) > 5'"),
    "masked": ("email STRING, phone STRING, secret STRING", "drop = ['secret']\n[types.masked.set]\n"
               "email = 'sha256(email)'\nphone = \"regexp_replace(phone, '[0-9]', '#', 'g')\"\n"
               "domain = \"split_part(email, '@', 2)\"\nwas = 'coalesce(secret, phone, email)'"),
    "record": ("n BIGINT", "[types.record.set]\nof_key = 'decode(_key)'\nplace = '_kafka.offset'\n"
               "of_topic = '_kafka.topic'\n"
               "source = \"decode(list_filter(_headers, lambda h: h.key = 'source')[1].value)\""),
    "pathed": ("customer STRING, city STRING, n BIGINT", "[types.pathed.names]\n"
               "customer = ['customer.id', 'customer_id']\ncity = 'address.home.city'"),
    "cased": ("userid BIGINT, note STRING", "case = 'insensitive'"),
    "plugged": ("n BIGINT", "python = 'tests.support.plug_ins:doubled'\npython_version = '1'\n"
                "python_columns = 'twice BIGINT'"),
}  # fmt: skip
"""Event type -> its columns, and what else its table in the settings says."""
CONSTANTS = {"cluster": "east", "zone": 3, "test": False, "share": 0.5}




def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def whole(text: str | None) -> int | None:
    """As a BIGINT. Raises ValueError."""
    number = None if text is None else int(text)
    if number is not None and not -(2**63) <= number < 2**63:
        raise ValueError(text)
    return number


def lucky(value: Mapping[str, Any]) -> int:
    """What tests.support.plug_ins.doubled refuses is refused."""
    if value["n"] == 13:
        raise ValueError
    return int(value["n"])


def _masked(value: Mapping[str, Any], message: Any) -> dict[str, Any]:
    email, phone = value.get("email"), value.get("phone")
    return {
        "email": email and digest(email), "phone": phone and re.sub("[0-9]", "#", phone),
        "domain": email and email.partition("@")[2], "was": value.get("secret") or phone or email,
    }  # fmt: skip


def _of_record(value: Mapping[str, Any], message: Any) -> dict[str, Any]:
    source = next((text for name, text in message.headers if name == "source"), None)
    return {
        "of_key": message.key and message.key.decode(), "place": message.offset, "of_topic": message.topic,
        "source": source and source.decode(),
    }  # fmt: skip


KEEPS = {
    "both": lambda value, _: (value.get("n") or 0) > 10 and value.get("flag") is True,
    "either": lambda value, _: (value.get("n") or 0) > 10 or value.get("flag") is True,
    "not": lambda value, _: value.get("n") is not None and value["n"] <= 10,
    "never": lambda value, _: False,
    "distinct": lambda value, _: value.get("n") != 10,
    "named": lambda value, _: (value["name"] or "").startswith(("Zoë 😀", "ß")),
    "guarded": lambda value, _: value["text"] not in (None, "x"),
    "asked": lambda value, _: (whole(value["text"]) or 0) > 5,
    "plugged": lambda value, _: lucky(value) >= 0,
}
"""The filters in plain Python, for the naive checker."""
MAKES: dict[str, Callable[[Any, Any], Mapping[str, Any]]] = {
    "named": lambda value, _: {"size": len(value["name"]), "first_one": value["name"][0]},
    "tenth": lambda value, _: {
        "number": whole(value["text"]),
        "half": None if value["n"] is None else value["n"] // 2,
    },
    "guarded": lambda value, _: {"number": whole(value["text"])},
    "masked": _masked,
    "record": _of_record,
    "plugged": lambda value, _: {"n": value["n"], "twice": 2 * value["n"]},
}
"""And what is computed."""


def row(of: str, value: Mapping[str, Any], **columns: Any) -> Case:
    """A record that its table has."""
    return Case({"type": of, **value}, {of: columns})


def left_out(of: str, **value: Any) -> Case:
    """One that the filter leaves out."""
    return Case({"type": of, **value}, filtered=frozenset([of]))


def fails(of: str, value: Mapping[str, Any], column: str) -> Case:
    """One on which an expression fails."""
    return Case({"type": of, **value}, dead=[(of, f"transform_failed: {column}: ")])


def kept_if(of: str, kept: bool, **value: Any) -> Case:
    return row(of, value, **value) if kept else left_out(of, **value)


def three_valued() -> list[Case]:
    """Each combination of null, false and true; SQL's answers are written down, by Python's None, False and True."""
    cases = []
    for n, more in ((None, None), (5, False), (20, True)):
        for flag in (None, False, True):
            both = False if more is False or flag is False else None if more is None or flag is None else True
            either = True if more is True or flag is True else None if more is None or flag is None else False
            cases.append(kept_if("both", both is True, n=n, flag=flag))
            cases.append(kept_if("either", either is True, n=n, flag=flag))
        cases.append(kept_if("not", more is False, n=n))
    cases += [left_out("never", n=n) for n in (None, 1, 2)]
    cases += [kept_if("distinct", n != 10, n=n) for n in (None, 10, 11)]
    return [*cases, left_out("both"), row("distinct", {}, n=None)]


def named(name: str, big: str, size: int, first_one: str) -> Case:
    return row("named", {"name": name}, name=name, big=big, size=size, first_one=first_one)


SHAPED = [
    *three_valued(),
    named("Zoë 😀", "ZOË 😀", 5, "Z"),
    left_out("named", name="Zoe\u0308 😀"),
    left_out("named", name="zoë 😀"),
    left_out("named", name="SS"),
    left_out("named", name=""),
    left_out("named", name=None),
    Case({"type": "named", "name": "ßaß"}, {"named": {"name": "ßaß", "size": 3, "first_one": "ß"}}),
    *(
        fails("tenth", {"text": "x", "n": n}, "number")
        if n % 10 == 7
        else row("tenth", {"text": str(n), "n": n}, number=n, half=n // 2)
        for n in range(120)
    ),
    row("tenth", {"text": None, "n": None}, number=None, half=None),
    fails("tenth", {"text": "9223372036854775808", "n": 1}, "number"),
    fails("tenth", {"text": "", "n": 1}, "number"),
    Case({"type": "tenth", "text": "x", "n": "many"}, dead=[("tenth", "")]),
    row("guarded", {"text": "5"}, number=5),
    left_out("guarded", text="x"),
    left_out("guarded", text=None),
    fails("guarded", {"text": "y"}, "number"),
    row("asked", {"text": "6"}, text="6"),
    left_out("asked", text="5"),
    left_out("asked", text=None),
    fails("asked", {"text": "six"}, "where"),
    row("masked", {"email": "a@b.c", "phone": "+49 30 1234", "secret": None}, email=digest("a@b.c"),
        phone="+## ## ####", domain="b.c", was="+49 30 1234"),
    row("masked", {"email": "é@ü", "secret": "s"}, email=digest("é@ü"), phone=None, domain="ü", was="s"),
    row("masked", {"email": None}, email=None, phone=None, domain=None, was=None),
    Case({"type": "record", "n": 1}, {"record": {"of_key": "k\u00e9y", "source": "web", "n": 1}},
         key="k\u00e9y".encode(), headers=[("a", b"1"), ("source", b"web"), ("source", b"later")]),
    Case({"type": "record", "n": 2}, {"record": {"of_key": None, "source": None}}),
    Case({"type": "record", "n": 3}, dead=[("record", "transform_failed: of_key: ")], key=b"\xff"),
    Case({"type": "record", "n": 4}, {"record": {"source": None}}, headers=[("source", None)]),
    row("pathed", {"customer": {"id": "c1"}, "customer_id": "c2", "n": 1}, customer="c1", city=None, n=1),
    row("pathed", {"customer": {"id": None}, "customer_id": "c2", "n": 2}, customer="c2", n=2),
    row("pathed", {"customer_id": "c3", "address": {"home": {"city": "Ulm"}}}, customer="c3", city="Ulm"),
    row("pathed", {"address": None}, customer=None, city=None),
    row("cased", {"userid": 1}, userid=1),
    row("cased", {"UserId": 2, "NOTE": "n"}, userid=2, note="n"),
    Case({"type": "cased", "UserId": 3, "USERID": 3}, dead=[("cased", "")]),
    Case({"type": "cased", "userid": 4, "UserId": None}, dead=[("cased", "")]),
    row("plugged", {"n": 4}, n=4, twice=8),
    left_out("plugged", n=-1),
    fails("plugged", {"n": 13}, "python"),
    row("plugged", {"n": 5}, n=5, twice=10),
]  # fmt: skip


def test_each_row_is_filtered_computed_named_or_refused_by_itself(exports: Exports, spark: Any) -> None:
    """Filters by three-valued logic, expressions that fail in every tenth row, text, names, case, functions."""
    e = exports(
        types={name: columns for name, (columns, _) in SHAPES.items()},
        cuts={name: rules for name, (_, rules) in SHAPES.items()},
        more="[constants]\n" + "\n".join(f"{name} = {json.dumps(value)}" for name, value in CONSTANTS.items()),
    )
    checked(e, spark, SHAPED, Plain(KEEPS, MAKES))
    for name in SHAPES:
        for found in e.rows(name):
            assert {column: found[column] for column in CONSTANTS} == CONSTANTS
            assert "secret" not in found
    placed = [(found["place"], found["of_topic"]) for found in e.rows("record")]
    assert placed == [(found["_kafka"]["offset"], e.topic) for found in e.rows("record")]
