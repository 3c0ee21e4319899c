"""What a leader checks of offers, which are only what messages say (protocol 4.11)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

import pytest

from exporter.core.columns import NO_COLUMNS
from exporter.core.coordination import Offer, OfferedClaim
from exporter.core.merging import choose, malformed, merged_metadata, settled
from offsets.names import AppId, DataFile
from offsets.partitions import DAY
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import LoggedCommit, TableView, fingerprint_of

P0, P1, P2 = (TopicPartition("shop.events", number) for number in range(3))
APP, TABLE = "app", "order/v1"
FRAME = "frame"
NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)


def view(at: Mapping[TopicPartition, Position]) -> TableView:
    versions = {str(AppId(APP, tp, position.epoch)): position.offset for tp, position in at.items()}
    return TableView(7, "id-0", fingerprint_of(FRAME, NO_COLUMNS), versions, {}, DAY.column_names, NO_COLUMNS,
                     frame=FRAME)  # fmt: skip


FRESH = view({tp: Position(0, 9) for tp in (P0, P1, P2)})


def add(offer_id: str, tp: TopicPartition, first: int, last: int, epoch: int = 0) -> dict[str, Any]:
    name = DataFile(DAY.at(NOON), APP, tp, epoch, last, "attempt")
    tags = {
        "app": APP, "topic": tp.topic, "partition": str(tp.partition), "epoch": str(epoch), "first_offset": str(first),
        "last_offset": str(last), "event_type": TABLE, "format": "1", "commit_id": offer_id,
    }  # fmt: skip
    return {
        "path": quote(str(name), safe="/="), "partitionValues": dict(name.partition.values), "size": 100,
        "modificationTime": 1, "dataChange": True, "stats": json.dumps({"numRecords": last - first + 1}), "tags": tags,
    }  # fmt: skip


def offer(name: str, *tps: TopicPartition, expected: int = 9, new: int = 19, rows: bool = True) -> Offer:
    said = {"epoch": 0, "expected": expected, "new": new, "rows": new - expected if rows else 0,
            "first": expected + 1 if rows else None, "last": new if rows else None}  # fmt: skip
    return Offer(
        app=APP, id=name, owner=f"task-{name}", table=TABLE, table_id="id-0", round_id="", base_version=3,
        claims=tuple(OfferedClaim(tp, 0, expected, new, said) for tp in tps),
        adds=tuple(add(name, tp, expected + 1, new) for tp in tps) if rows else (),
        fits=((FRESH.fingerprint, NO_COLUMNS),) if rows else (),
    )  # fmt: skip


def test_offers_go_together_in_their_order_and_each_once() -> None:
    """One that is said again is the same offer; of two on a partition the first one goes."""
    a, b, c = offer("a", P0), offer("b", P1, P0), offer("c", P2, rows=False)
    choice = choose(APP, FRESH, [a, a, b, c], {})
    assert (choice.offers, choice.dropped) == ((a, c), {"b": f"another offer has {P0}"})
    assert (choice.rows, choice.schema_json) == (10, NO_COLUMNS)
    assert choose(APP, FRESH, [b, a, c], {}).offers == (b, c)


@pytest.mark.parametrize(
    ("at", "why"),
    [
        ({P0: Position(0, 8), P1: Position(0, 9)}, "expected 9 in epoch 0"),
        ({P0: Position(0, 9), P1: Position(1, 9)}, "expected 9 in epoch 0"),
        ({P0: Position(0, 9)}, "None, expected 9"),
    ],
)
def test_an_offer_one_of_whose_partitions_is_elsewhere_is_left_out_whole(
    at: dict[TopicPartition, Position], why: str
) -> None:
    """Moved, in another epoch, or without a position: its id in the log would say of all that they have landed."""
    choice = choose(APP, view(at), [offer("a", P0, P1)], {})
    assert choice.offers == () and why in choice.dropped["a"]


def test_an_offer_for_another_table_of_the_name_is_left_out() -> None:
    """A repair has made it anew."""
    choice = choose(APP, FRESH, [replace(offer("a", P0), table_id="id-1")], {})
    assert choice.offers == () and "id-1" in choice.dropped["a"]


def test_what_is_known_against_an_offer_keeps_others_out_of_nothing() -> None:
    """A partition of one that is left out is free for the next one."""
    choice = choose(APP, FRESH, [offer("a", P0), offer("b", P0)], {"a": "its file is gone"})
    assert ([one.id for one in choice.offers], choice.dropped) == (["b"], {"a": "its file is gone"})


def test_the_outcome_of_a_commit_without_an_answer_is_that_of_each_offer() -> None:
    """In the log, moved by somebody else, or neither: that one may still land, and nobody is told anything of it."""
    moved = view({P0: Position(0, 19), P1: Position(0, 12), P2: Position(0, 9)})
    found = settled(APP, moved, [offer("a", P0), offer("b", P1), offer("c", P2)], {"a"})
    assert (found.version, found.landed, [*found.dropped]) == (None, ("a",), ["b"])


def test_a_merged_commit_says_of_each_partition_whose_it_is() -> None:
    """It is found under every id; the routing of a task is said where it is not the leader's."""
    a, b = offer("a", P0), offer("b", P1)
    mine, other = ({**one.claims[0].said, "routing": name} for one, name in ((a, "r"), (b, "s")))
    a, b = (replace(one, claims=(replace(one.claims[0], said=said),)) for one, said in ((a, mine), (b, other)))
    text = json.dumps(merged_metadata("m", APP, 6, [a, b], "leader", "r"))
    assert LoggedCommit(8, "STREAMING UPDATE", text, (), (), False).commit_ids == ("m", "a", "b")
    said = json.loads(text)
    assert (said["owner"], said["routing"], said["checked_through"], said["table_id"]) == ("leader", "r", 6, "id-0")
    partitions = said["partitions"]
    assert {tp: (one["offer"], one["owner"], one.get("routing")) for tp, one in partitions.items()} == {
        str(P0): ("a", "task-a", None), str(P1): ("b", "task-b", "s"),
    }  # fmt: skip


def changed(**values: Any) -> Callable[[Offer], Offer]:
    return lambda one: replace(one, **values)


def told(**values: Any) -> Callable[[Offer], Offer]:
    return lambda one: claimed(said={**one.claims[0].said, **values})(one)


def claimed(**values: Any) -> Callable[[Offer], Offer]:
    return lambda one: replace(one, claims=(replace(one.claims[0], **values), *one.claims[1:]))


def added(**values: Any) -> Callable[[Offer], Offer]:
    return lambda one: replace(one, adds=({**one.adds[0], **values}, *one.adds[1:]))


def tagged(**values: Any) -> Callable[[Offer], Offer]:
    return lambda one: added(tags={**one.adds[0]["tags"], **values})(one)


WRONG: dict[str, Callable[[Offer], Offer]] = {
    "another app": changed(app="other"),
    "another table": changed(table="click"),
    "an id that leads elsewhere": changed(id="../a"),
    "no id": changed(id=""),
    "no claim": changed(claims=(), adds=(), fits=()),
    "one partition twice": lambda one: replace(one, claims=one.claims * 2),
    "files without what they fit": changed(fits=()),
    "what files fit without files": changed(adds=()),
    "backwards": lambda one: claimed(expected=19, new=9)(told(expected=19, new=9)(one)),
    "before the first offset": lambda one: claimed(expected=-2)(told(expected=-2)(one)),
    "said otherwise": told(new=18),
    "more rows said": told(rows=11),
    "no rows said": told(rows=None),
    "another first offset said": told(first=None),
    "another last offset said": told(last=18),
    "less than no record left out": told(filtered=-1),
    "records left out that are no number": told(filtered="1"),
    "a file of another partition": lambda one: replace(one, adds=(*one.adds, add("a", P2, 10, 19))),
    "a file of another epoch": lambda one: replace(one, adds=(add("a", P0, 10, 19, epoch=1), *one.adds[1:])),
    "rows at the expected offset": tagged(first_offset="9"),
    "rows beyond the new offset": lambda one: replace(one, adds=(add("a", P0, 10, 20), *one.adds[1:])),
    "two files that share offsets": lambda one: replace(one, adds=(*one.adds, one.adds[0])),
    "tags of another offer": tagged(commit_id="b"),
    "tags of another type": tagged(event_type="click"),
    "a last offset that its name does not have": tagged(last_offset="18"),
    "another folder": added(partitionValues={"day": "2026-01-30"}),
    "a file outside": added(path="../click/day=2026-01-31/app.shop.events.0.0.00000000000000000019.x.parquet"),
    "an absolute file": added(path="/day=2026-01-31/app.shop.events.0.0.00000000000000000019.x.parquet"),
    "rows that are not new": added(dataChange=False),
    "a vector of deleted rows": added(deletionVector={}),
    "no size": added(size=0),
    "no tags": added(tags=None),
    "no statistics": added(stats="{"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_offer_that_is_not_whole_is_left_out(name: str) -> None:
    """A claim of one's own would stop its task then; a message must not, and must not land."""
    good = offer("a", P0, P1)
    assert malformed(APP, TABLE, good) == ""
    assert malformed(APP, TABLE, offer("a", P0, rows=False)) == ""
    assert malformed(APP, TABLE, WRONG[name](good))


def _spoiled(rng: random.Random, value: Any) -> Any:
    """Some part of a JSON value is another one."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice([*value])
        if rng.random() < 0.2:
            return {one: value[one] for one in value if one != key}
        return {**value, key: _spoiled(rng, value[key])}
    return rng.choice([None, 0, -1, 1 << 70, "", "x", "\0", [], {}, [1], {"a": 1}, True, 1.5, str(value)[1:]])


def test_whatever_a_file_says_of_itself_is_an_answer_and_never_an_error() -> None:
    """Seeded: any part of an `add`, and of what is said of a partition, is something else."""
    rng, good = random.Random(11), offer("a", P0, P1)
    for _ in range(3000):
        adds = tuple(_spoiled(rng, dict(one)) if rng.random() < 0.7 else one for one in good.adds)
        claims = good.claims
        if rng.random() < 0.3:
            said = _spoiled(rng, dict(good.claims[0].said))
            claims = (replace(good.claims[0], said=said if isinstance(said, dict) else {}), *good.claims[1:])
        spoiled = replace(good, adds=adds, claims=claims)
        assert isinstance(malformed(APP, TABLE, spoiled), str)


def test_a_merged_commit_is_what_its_offers_would_be_one_after_the_other() -> None:
    """Seeded: whatever is offered in whatever order, by compare-and-set; who is left out could not have landed either,
    but for one that builds on another offer of the same commit, which no task makes."""
    rng, tps = random.Random(5), (P0, P1, P2)
    left_out = 0
    for _ in range(2000):
        at = {tp: rng.randint(8, 10) for tp in tps}
        offers = [
            offer(f"o{n}", *rng.sample(tps, rng.randint(1, 3)), expected=expected, new=expected + rng.randint(1, 2))
            for n, expected in enumerate(rng.choices((8, 9, 10), k=rng.randint(1, 5)))
        ]
        choice = choose(APP, view({tp: Position(0, offset) for tp, offset in at.items()}), offers, {})
        now, moved = dict(at), set[TopicPartition]()
        for one in offers:
            lands = all(now[claim.tp] == claim.expected for claim in one.claims)
            builds_on = any(claim.tp in moved for claim in one.claims)
            assert (one in choice.offers) == (lands and not builds_on)
            assert (one.id in choice.dropped) == (one not in choice.offers)
            if one in choice.offers:
                now |= {claim.tp: claim.new for claim in one.claims}
                moved |= {claim.tp for claim in one.claims}
        left_out += len(choice.dropped)
    assert left_out > 1000
