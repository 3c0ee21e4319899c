"""Random messages against Google's parser and a plain walk over the wire: no difference in verdict or value."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError

from exporter.formats.binary.cursor import Batch
from exporter.formats.binary.reasons import Places
from exporter.formats.protobuf.decode import decoded
from exporter.formats.protobuf.descriptors import descriptors
from exporter.formats.protobuf.plan import plan_of
from exporter.formats.protobuf.wired import wired
from exporter.formats.typed.typed import Typed
from tests.support import proto_oracle
from tests.support.proto_files import EVERY, OLD, classes, text_of
from tests.support.proto_fuzz import some

MESSAGES = [(EVERY, "every.Every"), (EVERY, "every.Inner"), (OLD, "old.Old")]


class Reader:
    """Reads batches of one message."""

    def __init__(self, text: str, name: str) -> None:
        self._places = Places()
        self._wired = wired(plan_of(descriptors(text_of(text)), name), self._places)
        self.kind = classes(text)[name].DESCRIPTOR

    def read(self, values: list[bytes]) -> Typed:
        batch = Batch(pa.array(values, pa.binary()), self._places.copy())
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


@pytest.mark.parametrize(("text", "name"), MESSAGES)
def test_random_messages_are_read_as_others_read_them(text: str, name: str) -> None:
    """And each alone as in its batch, reasons included."""
    _, rows = fuzz(text, name, 40, 25, 40)
    assert rows > 100
