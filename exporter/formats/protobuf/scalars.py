"""What was found of a scalar field -> its column. Runs on Spark executors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from exporter.formats.binary.columns import BinaryColumn, Numbers, Spans, Symbols, Valid
from exporter.formats.binary.cursor import ValueBytes
from exporter.formats.binary.reasons import Kind
from exporter.formats.protobuf.plan import FieldPlan

NO_REASON = -1
_ONE = np.uint64(1)
_INT32, _UINT32_MAX = np.iinfo(np.int32), np.uint64((1 << 32) - 1)
_WORDS = {"fixed64": "u8", "sfixed64": "i8", "double": "f8", "sfixed32": "i4", "float": "f4"}


class Scalars(NamedTuple):
    """Scalars as numpy has them. wrong: of each what is wrong with it (Kind) or NO_REASON; None if all are well."""

    values: np.ndarray
    wrong: np.ndarray | None = None


def is_text(slot: FieldPlan) -> bool:
    """Whether values are bytes that lie in the batch."""
    return slot.kind in ("string", "bytes")


def scalars(slot: FieldPlan, batch: ValueBytes, at: np.ndarray, value: np.ndarray) -> Scalars:
    """The numbers of a field that is no text and no message. Enums are positions among slot.names."""
    kind = slot.kind
    if kind == "uint64":
        return Scalars(value)
    if kind == "int64":
        return Scalars(value.view(np.int64))
    if kind == "sint64":
        return Scalars(_zigzag(value))
    if kind == "int32":
        whole = value.view(np.int64)
        return Scalars(whole.astype(np.int32), _out_of_range((whole < _INT32.min) | (whole > _INT32.max)))
    if kind in ("uint32", "sint32"):
        wrong = _out_of_range(value > _UINT32_MAX)
        return Scalars(value.view(np.int64) if kind == "uint32" else _zigzag(value).astype(np.int32), wrong)
    if kind == "bool":
        return Scalars(value == _ONE, _out_of_range(value > _ONE))
    if kind == "enum":
        return _enum(slot, value.view(np.int64))
    word = batch.u64[at] if kind in ("fixed64", "sfixed64", "double") else batch.u32[at]
    return Scalars(word.astype(np.int64) if kind == "fixed32" else word.view(_WORDS[kind]))


def column(slot: FieldPlan, values: np.ndarray, valid: Valid = None) -> BinaryColumn:
    """Numbers as a column of slot.one. valid: where there is one."""
    if slot.kind == "enum":
        return Symbols(values, pa.array([name for _, name in slot.names], pa.string()), valid=valid)
    if slot.kind in ("uint64", "fixed64"):
        wide = np.zeros((len(values), 2), np.uint64)
        wide[:, 0] = values
        values = wide
    return Numbers(values, slot.one, valid=valid)


def absent(slot: FieldPlan) -> int:
    """What stands for a number that is not there: 0, of an enum the name of it."""
    return next((at for at, (number, _) in enumerate(slot.names) if number == 0), 0)


def spans(slot: FieldPlan, at: np.ndarray, value: np.ndarray, place: int, valid: Valid = None) -> BinaryColumn:
    """Texts or bytes at ascending places."""
    return Spans(at, value.view(np.int64), slot.one, place, valid=valid)


def _out_of_range(wrong: np.ndarray) -> np.ndarray | None:
    return np.where(wrong, Kind.OUT_OF_RANGE, NO_REASON) if wrong.any() else None


def _zigzag(value: np.ndarray) -> np.ndarray:
    signed: np.ndarray = ((value >> _ONE) ^ (~(value & _ONE) + _ONE)).view(np.int64)
    return signed


def _enum(slot: FieldPlan, whole: np.ndarray) -> Scalars:
    """Positions among the names. What no int32 holds is out of range; another number has no name."""
    known = np.array([number for number, _ in slot.names], np.int64)
    order = np.argsort(known)
    at = np.minimum(np.searchsorted(known, whole, sorter=order), len(known) - 1)
    position = order[at]
    nameless = known[position] != whole
    if not nameless.any():
        return Scalars(position)
    beyond = (whole < _INT32.min) | (whole > _INT32.max)
    wrong = np.where(nameless, np.where(beyond, Kind.OUT_OF_RANGE, Kind.UNKNOWN_ENUM), NO_REASON)
    return Scalars(np.where(nameless, 0, position), wrong)
