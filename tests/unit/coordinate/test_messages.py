"""Messages of the control topic as JSON: there and back, and whatever somebody else may have written there."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.coordinate.messages import Unreadable, decode, encode, schema
from exporter.core.coordination import Begin, Message, Offer, OfferedClaim, Outcome, Ready
from exporter.settings.load import load
from offsets.ranges import TopicPartition
from tests.support.settings import TOML

PAGE = Path(__file__).parents[3] / "deploy" / "handbook" / "coordinated.md"
TP = TopicPartition("shop.orders-eu", 3)
SAID = {"epoch": 0, "expected": 10, "new": 25, "first": 11, "last": 24, "rows": 9, "filtered": 2, "token": 7}
OFFER = Offer(
    app="app", id="8c1f", owner="task-ä-1", table="order \N{SNOWMAN}/..", table_id="t-1", round_id="r1",
    base_version=-1,
    claims=(OfferedClaim(TP, 0, 10, 25, SAID),
            OfferedClaim(TopicPartition("b", 0), 1, -1, 2**63 - 1, {"epoch": 1, "expected": -1, "new": 2**63 - 1})),
    adds=({"path": "day=1/a.parquet", "size": 1, "partitionValues": {"day": None}, "stats": '{"numRecords":9}'},),
    fits=(("f1", "id INT"),),
)  # fmt: skip
MESSAGES: list[Message] = [
    Begin("app", "task-1", "r1", 1),
    Ready("app", "task-1", "r1", (TP, TopicPartition("b", 0))),
    Ready("app", "task-1", "", ()),
    OFFER,
    replace(OFFER, adds=(), fits=(), manifest="_exporter/offers/8c1f.json"),
    Outcome("app", "task-1", "r1", "order", 7, 9, ("8c1f", "a-b"), {"x": "moved: shop-3 is at 40"}),
    Outcome("app", "task-1", "", "order", None),
]


def changed(message: Message, **changes: Any) -> bytes:
    """A message's JSON with other values; ... takes a key out."""
    found = {**json.loads(encode(message)), **changes}
    return json.dumps({key: value for key, value in found.items() if value is not ...}).encode()


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: type(one).__name__)
def test_a_message_comes_as_it_was_said(message: Message) -> None:
    """In one line of JSON that names its kind and version."""
    value = encode(message)
    assert decode(value, "app") == message
    told = json.loads(value)
    assert (told["kind"], told["v"], told["app"]) == (type(message).__name__.lower(), 1, "app")
    assert b"\n" not in value


def test_what_a_later_version_adds_is_passed_over() -> None:
    """Keys that nobody knows here; what is said of a partition is kept whole, for it goes into the commit."""
    assert decode(changed(MESSAGES[0], urgency="high"), "app") == MESSAGES[0]
    claim = OfferedClaim(TP, 0, 10, 25, {**SAID, "later": {"a": [1, None]}})
    assert decode(encode(replace(OFFER, claims=(claim,))), "app") == replace(OFFER, claims=(claim,))


@pytest.mark.parametrize(
    "value",
    [
        b"", b"null", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"kind":"begin"' * 10_000, b"0", b'"begin"',
        encode(MESSAGES[0])[:-1], encode(MESSAGES[0]) + b"x", b'{"kind":"begin","v":1,"app":"\\ud800"}',
        b'{"kind":"offer","v":1,"app":"app","claims":{"a-0":' + b'{"x":' * 100_000,
        changed(MESSAGES[0], kind="finish"), changed(MESSAGES[0], kind=...), changed(MESSAGES[0], kind=None),
        changed(MESSAGES[0], v=2), changed(MESSAGES[0], v="1"), changed(MESSAGES[0], v=...),
        changed(MESSAGES[0], app="other"), changed(MESSAGES[0], app=...), changed(MESSAGES[0], leader=5),
        changed(MESSAGES[0], number=-1), changed(MESSAGES[0], number=2**63), changed(MESSAGES[0], number=1.5),
        changed(MESSAGES[0], round_id="r" * 101), changed(MESSAGES[0], leader="x" * 1001),
        changed(MESSAGES[1], partitions=["b"]), changed(MESSAGES[1], partitions=["b-"]),
        changed(MESSAGES[1], partitions=["../b-0"]), changed(MESSAGES[1], partitions=["b-9999999999"]),
        changed(OFFER, claims={}), changed(OFFER, claims=[]), changed(OFFER, claims={"b": SAID}),
        changed(OFFER, claims={"b-0": {**SAID, "new": -2}}), changed(OFFER, claims={"b-0": {**SAID, "new": 2**63}}),
        changed(OFFER, claims={"b-0": {"epoch": 0, "expected": 1}}),
        changed(OFFER, claims={"b-0": {**SAID, "epoch": "0"}}),
        changed(OFFER, claims={"b-0": {**SAID, "expected": True}}), changed(OFFER, claims={"b-0": None}),
        changed(OFFER, id=""), changed(OFFER, id="a/b"), changed(OFFER, id=...), changed(OFFER, base_version=-2),
        changed(OFFER, adds=["a.parquet"]), changed(OFFER, fits=[["f1"]]), changed(OFFER, fits=[["f1", 2]]),
        changed(OFFER, manifest="../secret"), changed(OFFER, manifest="_exporter/offers/../../x.json"),
        changed(OFFER, manifest="/_exporter/offers/a.json"),
        changed(MESSAGES[5], version="7"), changed(MESSAGES[5], landed=[None]), changed(MESSAGES[5], dropped={"x": 1}),
        changed(MESSAGES[5], dropped={"a/b": "why"}), changed(MESSAGES[5], rows=-1),
    ],
)  # fmt: skip
def test_what_is_no_message_of_this_version_and_app_cannot_be_read(value: bytes) -> None:
    """Whoever may write there can write anything; one kind of error says so, and a reason comes with it."""
    with pytest.raises(Unreadable) as caught:
        decode(value, "app")
    assert str(caught.value)


def test_a_message_that_is_damaged_is_a_message_or_unreadable() -> None:
    """Fuzz: bytes changed, cut and mixed of real messages. Nothing else is ever raised."""
    draws, values = random.Random(44), [encode(message) for message in MESSAGES]
    read = 0
    for _ in range(20_000):
        value = bytearray(draws.choice(values))
        for _ in range(draws.randint(1, 4)):
            at = draws.randrange(len(value))
            match draws.randrange(4):
                case 0:
                    value[at] = draws.randrange(256)
                case 1:
                    del value[at : at + draws.randint(1, 9)]
                case 2:
                    value[at:at] = draws.choice((b"9" * 30, b"null", b"[", b"}", b'"', b"-1", b"\\u0000", b"1e400"))
                case _:
                    other = draws.choice(values)
                    value[at:] = other[draws.randrange(len(other)) :]
            value = value or bytearray(b" ")
        try:
            message = decode(bytes(value), "app")
        except Unreadable:
            continue
        read += 1
        assert decode(encode(message), "app") == message
    assert read > 500


def test_positions_stand_once_in_a_message() -> None:
    """What the commit would say of a partition cannot contradict what is compared with the table."""
    value = encode(replace(OFFER, claims=(OfferedClaim(TP, 0, 10, 25, {**SAID, "new": 1_000}),)))
    claim = decode(value, "app").claims[0]  # type: ignore[union-attr]
    assert (claim.new, claim.said["new"]) == (25, 25)
    assert value.count(b'"new"') == 1


def test_the_schema_describes_each_kind() -> None:
    """As JSON Schema has it: which keys there must be, and nothing that points nowhere."""
    told = schema()
    assert [one["$ref"] for one in told["oneOf"]] == [f"#/$defs/{name}" for name in told["$defs"]]
    kinds = {name: one["properties"]["kind"]["enum"] for name, one in told["$defs"].items()}
    assert kinds == {"Begin": ["begin"], "Offer": ["offer"], "Ready": ["ready"], "Outcome": ["outcome"]}
    for message in MESSAGES:
        described = told["$defs"][type(message).__name__]
        properties = {*described["properties"]} - {"signature"}
        assert {*described["required"]} <= {*json.loads(encode(message))} == properties
        assert described["description"]


def test_the_handbook_shows_the_schema_of_the_messages() -> None:
    """And settings that load, whose control topic each verb of the page names."""
    (shown,) = re.findall(r"```json\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert json.loads(shown) == json.loads(json.dumps(schema()))


def test_the_settings_of_the_page_are_settings(tmp_path: Path) -> None:
    """Whoever copies them starts with them."""
    (shown,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "exporter.toml").write_text(shown + TOML, "utf-8")
    settings = load(tmp_path / "exporter.toml", {}, {})
    assert (settings.commit_mode, settings.control_topic) == ("coordinated", "exporter-control")
