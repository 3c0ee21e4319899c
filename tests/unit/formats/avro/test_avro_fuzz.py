"""The vectorised reader of Avro against one that reads value by value: schemas and bodies at random, seeded."""

from __future__ import annotations

import json
import random
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from exporter.core.schemas import SchemaText
from exporter.formats.avro import nested, nodes
from exporter.formats.avro.plan import AvroPlan
from exporter.formats.avro.schema import parsed
from exporter.formats.binary.cursor import LockstepCursor
from exporter.formats.typed.typed import Typed
from tests.support.avro_oracle import Bad, damaged, random_body, random_spec, value_of
from tests.support.typed_values import comparable, plain

SEEDS = 120
"""A second and a half; those below find each mistake by the fifth."""
SEEDS_LONG = 5_000


def plan_of(spec: Any) -> AvroPlan:
    return AvroPlan(parsed(SchemaText("AVRO", json.dumps(spec))))


def rows_of(plan: AvroPlan, bodies: list[bytes]) -> Typed:
    return plan.rows(plan.batch(pa.array(bodies, pa.binary())), np.arange(len(bodies)))


def verdicts(plan: AvroPlan, bodies: list[bytes]) -> list[Any]:
    """Of each body its value or its reason."""
    found = rows_of(plan, bodies)
    found.record.validate(full=True)
    values = dict(zip(found.rows.tolist(), plain(found.record), strict=True))
    assert sorted([*values, *found.refused]) == list(range(len(bodies)))
    return [found.refused.get(row) or comparable(values[row]) for row in range(len(bodies))]


def expected(spec: Any, body: bytes) -> Any:
    try:
        return comparable(value_of(spec, body))
    except Bad:
        return None


def difference(seed: int) -> str:
    """What the two say differently of the bodies of one seed, or the reader of bodies alone and in a batch."""
    dice = random.Random(seed)
    spec = random_spec(dice)
    bodies = [random_body(dice, spec, long_lists=dice.random() < 0.2) for _ in range(dice.choice((1, 8, 40, 120)))]
    bodies = [damaged(dice, one) if dice.random() < 0.4 else one for one in bodies]
    plan = plan_of(spec)
    with patch.object(nested, "FEW", dice.choice((0, 3, nested.FEW))):  # else few lists are read in lockstep
        found = verdicts(plan, bodies)
    for body, got in zip(bodies, found, strict=True):
        wanted = expected(spec, body)
        if (got if not isinstance(got, str) else None) != wanted:
            return f"seed {seed}: {json.dumps(spec)}\n{body.hex()}\nread:     {got}\nexpected: {wanted}"
    for row in dice.sample(range(len(bodies)), min(len(bodies), 6)):
        (alone,) = verdicts(plan, [bodies[row]])
        if alone != found[row]:
            return f"seed {seed}: {json.dumps(spec)}\n{bodies[row].hex()}\nalone: {alone}\nbatch: {found[row]}"
    return ""


def search(first: int, seeds: int) -> str:
    """The first difference among so many seeds; empty if there is none."""
    return next(filter(None, map(difference, range(first, first + seeds))), "")


def test_both_readers_say_the_same_of_random_bodies() -> None:
    """The value of each good one, and which are bad; alone as in a batch, with the same reason."""
    told = search(1_000, SEEDS)
    assert not told, told


@pytest.mark.long
@pytest.mark.parametrize("part", range(6))
def test_both_readers_say_the_same_for_long(part: int) -> None:
    """Other seeds, a minute's each."""
    told = search(1_000_000 * (part + 1), SEEDS_LONG)
    assert not told, told


def _lose_an_item(self: Any, walk: Any, rest: int, begins: list[int], lefts: list[int]) -> bool:
    found = _locate(self, walk, rest, begins, lefts)
    if len(begins) > 30:
        del begins[-2], lefts[-2]
    return found


def _take_any_end(self: LockstepCursor, pos: np.ndarray, place: int, x: np.ndarray) -> np.ndarray:
    self.pos = np.minimum(pos, self.end)
    return x


def _any_boolean(self: Any, cursor: LockstepCursor) -> Any:
    return nodes.Numbers(cursor.byte(self.place) == 1, pa.bool_())


def _refuse_neighbours(self: LockstepCursor, where: np.ndarray, place: int, kind: Any) -> None:
    _fail(self, where | np.roll(where, 1), place, kind)


_locate, _fail = nested.ItemsNode._locate, LockstepCursor.fail
MUTANTS = [
    (nested.ItemsNode, "_locate", _lose_an_item),
    (LockstepCursor, "_moved", _take_any_end),
    (nodes.Boolean, "read", _any_boolean),
    (LockstepCursor, "fail", _refuse_neighbours),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one[2].__name__)
def test_a_reader_with_a_mistake_is_found(mutant: tuple[Any, str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """An item lost, a value cut short, a boolean that is none, a neighbour refused: else this proves nothing."""
    monkeypatch.setattr(*mutant)
    try:
        told = search(1_000, SEEDS)
    except TypeError:  # the mistake is no longer made where it was
        raise
    except Exception as error:  # noqa: BLE001
        told = str(error)
    assert told
