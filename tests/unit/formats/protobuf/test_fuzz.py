"""Random messages against Google's parser and a plain walk over the wire: no difference in verdict or value."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError

from exporter.formats.binary.cursor import ValueBytes
from exporter.formats.binary.reasons import ReasonPaths
from exporter.formats.protobuf import decode, scalars, scan
from exporter.formats.protobuf.decode import decoded
from exporter.formats.protobuf.descriptors import descriptors
from exporter.formats.protobuf.plan import plan_of
from exporter.formats.protobuf.wired import wired
from exporter.formats.typed.typed import Typed
from tests.support import proto_oracle
from tests.support.proto_files import EVERY, OLD, classes, text_of
from tests.support.proto_fuzz import damaged, message, some

MESSAGES = [(EVERY, "every.Every"), (EVERY, "every.Inner"), (OLD, "old.Old")]


class Reader:
    """Reads batches of one message."""

    def __init__(self, text: str, name: str) -> None:
        self._places = ReasonPaths()
        self._wired = wired(plan_of(descriptors(text_of(text)), name), self._places)
        self.kind = classes(text)[name].DESCRIPTOR

    def read(self, values: list[bytes]) -> Typed:
        batch = ValueBytes(pa.array(values, pa.binary()), self._places.copy())
        return decoded(batch, self._wired, np.arange(len(values)))


def shown(typed: Typed) -> dict[int, Any]:
    """Row -> what was read, or the reason."""
    rows = [proto_oracle.plain(row) for row in typed.record.to_pylist()]
    return {**dict(zip(typed.rows.tolist(), rows, strict=True)), **typed.refused}


def differences(reader: Reader, values: list[bytes], found: dict[int, Any]) -> list[Any]:
    """Where the two opinions differ."""
    odd: list[Any] = []
    for row, value in enumerate(values):
        says = proto_oracle.codes(value, reader.kind)
        try:
            upb = proto_oracle.parsed(value, reader.kind)
        except DecodeError:
            upb = None
        mine = found[row]
        if isinstance(mine, str):
            well = mine.partition(":")[0] in says
        else:
            well = not says and upb is not None and proto_oracle.plain(proto_oracle.value_of(upb)) == mine
        if not well:
            odd.append((value.hex(), mine, says, upb))
    return odd


def fuzz(text: str, name: str, seed: int, batches: int, size: int) -> tuple[int, int]:
    """How many were read, and how many of these are rows."""
    reader, rng = Reader(text, name), random.Random(seed)
    rows = 0
    for _ in range(batches):
        values = [some(rng, reader.kind) for _ in range(rng.randint(1, size))]
        typed = reader.read(values)
        typed.record.validate(full=True)
        found = shown(typed)
        assert sorted(found) == list(range(len(values)))
        assert not (odd := differences(reader, values, found)), odd[:2]
        for row in rng.sample(range(len(values)), min(3, len(values))):
            assert shown(reader.read([values[row]]))[0] == found[row], (values[row].hex(), seed)
        rows += len(typed.rows)
    return batches, rows


def crowded(rng: random.Random, kind: Any) -> bytes:
    """A message that is most often odd."""
    return message(rng, kind, 0.2) if rng.random() < 0.5 else damaged(rng, message(rng, kind))


@pytest.mark.parametrize(("text", "name"), MESSAGES)
def test_random_messages_are_read_as_others_read_them(text: str, name: str) -> None:
    """And each alone as in its batch, reasons included."""
    _, rows = fuzz(text, name, 40, 15, 40)
    assert rows > 60


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize(("text", "name"), MESSAGES)
def test_many_random_messages_are_read_as_others_read_them(text: str, name: str, seed: int) -> None:
    """The same for longer: about 300,000 of them."""
    fuzz(text, name, 1_000 + seed, 80, 60)


@pytest.mark.parametrize(("text", "name"), MESSAGES)
def test_many_bad_rows_in_a_batch_are_each_what_they_are_alone(text: str, name: str) -> None:
    """A row's neighbours change neither its verdict nor its words."""
    reader, rng = Reader(text, name), random.Random(7)
    values = [crowded(rng, reader.kind) for _ in range(200)]
    found = shown(reader.read(values))
    assert sum(isinstance(one, str) for one in found.values()) > 75
    assert not (odd := differences(reader, values, found)), odd[:2]
    assert [shown(reader.read([value]))[0] for value in values] == [found[row] for row in range(len(values))]


def test_rows_that_are_walked_on_one_by_one_are_what_they_are_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a row is walked on depends on its neighbours, so nothing else may depend on that."""
    reader, rng = Reader(EVERY, "every.Every"), random.Random(8)
    values = [rng.choice((some, crowded))(rng, reader.kind) for _ in range(300)]
    ways = []
    for rounds, few in ((24, 48), (1, 10**9), (10**9, 0)):
        monkeypatch.setattr(scan, "ROUNDS", rounds)
        monkeypatch.setattr(scan, "FEW", few)
        ways.append(shown(reader.read(values)))
    assert ways[0] == ways[1] == ways[2]


def lose_one(walk: Any) -> Any:
    """An item of a row that is walked on is lost."""

    def lost(self: Any, row: int) -> None:
        before = {tag: len(parts) for tag, parts in self._found.items()}
        walk(self, row)
        for tag, parts in self._found.items():
            if len(parts) > before.get(tag, 0) and len(parts[-1].rows) > 1:
                parts[-1] = parts[-1].where(np.arange(len(parts[-1].rows)) > 0)

    return lost


def forget_ranges(_original: Any) -> Any:
    """Nothing is out of range."""
    return lambda wrong: None


def forgive_if_cut(unpack: Any) -> Any:
    """A piece that is refused hides what is wrong with the others."""

    def forgiving(batch: Any, slot: Any, pieces: Any, place: int) -> Any:
        found, bad = unpack(batch, slot, pieces, place)
        first = np.zeros(len(bad), bool)
        first[np.flatnonzero(bad)[:1]] = True
        return found, np.where(first, bad, 0)

    return forgiving


def take_the_last(once: Any) -> Any:
    """Of a field that is there twice the first one counts, and nobody is told."""

    def silent(self: Any, one: Any, parts: Any) -> Any:
        bad = self._cursor.bad.copy()
        found = once(self, one, parts)
        self._cursor.bad[:] = bad
        return found

    return silent


MUTANTS = {
    "an item is lost": (scan._Scan, "_walk", lose_one, "every.Every"),
    "no ranges": (scalars, "_out_of_range", forget_ranges, "every.Every"),
    "neighbours": (decode, "unpacked", forgive_if_cut, "every.Inner"),
    "twice": (decode._Messages, "_once", take_the_last, "every.Inner"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_reader_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch, mutant: str) -> None:
    """What looks for differences is one that can fail."""
    where, name, wrong, message_name = MUTANTS[mutant]
    monkeypatch.setattr(where, name, wrong(getattr(where, name)))
    reader, rng = Reader(EVERY, message_name), random.Random(2)
    for _ in range(40):
        values = [rng.choice((some, crowded))(rng, reader.kind) for _ in range(100)]
        if differences(reader, values, shown(reader.read(values))):
            return
    pytest.fail("no difference was found")
