"""Damaged messages: the bad one between two good ones is the row that is refused, with its path; the others are rows.

Google's parser takes many of them in silence: what it makes of each is said beside it.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest

from exporter.formats.binary.cursor import ITEMS_MAX, ValueBytes
from exporter.formats.binary.reasons import ReasonPaths
from exporter.formats.protobuf.decode import decoded
from exporter.formats.protobuf.descriptors import descriptors
from exporter.formats.protobuf.plan import plan_of
from exporter.formats.protobuf.wired import wired
from exporter.formats.typed.typed import Typed
from tests.support import proto_oracle
from tests.support.proto_files import EVERY, OLD, classes, text_of
from tests.support.proto_fuzz import number


def read(values: list[bytes], text: str = EVERY, name: str = "every.Every") -> Typed:
    """By a new plan."""
    places = ReasonPaths()
    made = wired(plan_of(descriptors(text_of(text)), name), places)
    return decoded(ValueBytes(pa.array(values, pa.binary()), places), made, np.arange(len(values)))


def tag(field: int, wire: int) -> bytes:
    return number(field << 3 | wire)


def varint(field: int, value: int) -> bytes:
    return tag(field, 0) + number(value)


def sized(field: int, body: bytes) -> bytes:
    return tag(field, 2) + number(len(body)) + body


def entry(field: int, key: bytes, value: bytes) -> bytes:
    return sized(field, key + value)


TWICE, UTF8, TRUNCATED = "is there twice", "is text that is not UTF-8", "ends before its value does"
RANGE, WIRE = "lies outside of what its type can hold", "has a wire type that its field cannot have"
UNKNOWN, TAG = "is a field that its schema does not have", "is not the beginning of a field"
VARINT, LENGTH = "is a number of more than 64 bits", "has a length that there cannot be"
NAMELESS = "is the number of no value of its enum"

REFUSED = {
    "a number that is cut": (tag(1, 0) + b"\x80", f"truncated: $.i32 {TRUNCATED}"),
    "a number that is not there": (tag(2, 0), f"truncated: $.i64 {TRUNCATED}"),
    "a double that is cut": (tag(14, 1) + b"\0" * 7, f"truncated: $.twice {TRUNCATED}"),
    "a float that is cut": (tag(11, 5) + b"\0" * 3, f"truncated: $.single {TRUNCATED}"),
    "a text that is cut": (tag(15, 2) + b"\x05abcd", f"truncated: $.text {TRUNCATED}"),
    "a message that is cut": (tag(21, 2) + b"\x05\x08\x01", f"truncated: $.inner {TRUNCATED}"),
    "a tag that is cut": (b"\x88", f"truncated: $ {TRUNCATED}"),
    "packed numbers that are cut": (sized(22, b"\x01\x80"), f"truncated: $.packed {TRUNCATED}"),
    "packed doubles that are cut": (sized(24, b"\0" * 9), f"truncated: $.doubles {TRUNCATED}"),
    "cut inside of a message": (sized(21, b"\x08"), f"truncated: $.inner.x {TRUNCATED}"),
    "field number 0": (b"\x00\x01", f"bad_tag: $ {TAG}"),
    "field number 0 with a length": (b"\x02\x00", f"bad_tag: $ {TAG}"),
    "wire type 6": (tag(1, 6) + b"\x01", f"bad_tag: $ {TAG}"),
    "wire type 7": (tag(1, 7) + b"\x01", f"bad_tag: $ {TAG}"),
    "the end of no group": (tag(1, 4), f"bad_tag: $ {TAG}"),
    "a tag of six bytes": (b"\x88\x80\x80\x80\x80\x00\x01", f"bad_tag: $ {TAG}"),
    "a tag over 32 bits": (number(1 << 35 | 8) + b"\x01", f"bad_tag: $ {TAG}"),
    "a tag of eleven bytes": (b"\xff" * 11, f"bad_varint: $ {VARINT}"),
    "a length of 2**31": (tag(15, 2) + number(1 << 31) + b"ab", f"truncated: $.text {TRUNCATED}"),
    "a length of 2**63": (tag(15, 2) + number(1 << 63) + b"ab", f"bad_length: $.text {LENGTH}"),
    "a length of -1": (tag(15, 2) + number(-1) + b"ab", f"bad_length: $.text {LENGTH}"),
    "a number of eleven bytes": (tag(2, 0) + b"\xff" * 10 + b"\x01", f"bad_varint: $.i64 {VARINT}"),
    "a number over 64 bits": (tag(2, 0) + b"\xff" * 9 + b"\x02", f"bad_varint: $.i64 {VARINT}"),
    "a packed one of eleven bytes": (sized(46, b"\xff" * 10 + b"\x01"), f"bad_varint: $.u64s {VARINT}"),
    "text that is not UTF-8": (sized(15, b"\xff"), f"not_utf8: $.text {UTF8}"),
    "in a message": (sized(21, sized(2, b"\xc3")), f"not_utf8: $.inner.y {UTF8}"),
    "as a key": (entry(29, sized(1, b"\xff"), varint(2, 1)), f"not_utf8: $.counts{{}}.key {UTF8}"),
    "half of a pair": (sized(26, b"\xed\xa0\x80"), f"not_utf8: $.texts[] {UTF8}"),
    # kept aside in silence
    "an unknown number": (varint(60, 1), f"unknown_field: $.60 {UNKNOWN}"),
    "unknown bytes": (sized(60, b"ab"), f"unknown_field: $.60 {UNKNOWN}"),
    "an unknown group": (tag(60, 3) + tag(60, 4), f"unknown_field: $.60 {UNKNOWN}"),
    "an unknown field in a message": (sized(21, varint(9, 1)), f"unknown_field: $.inner.9 {UNKNOWN}"),
    "in the second item": (sized(28, b"") + sized(28, varint(9, 1)), f"unknown_field: $.inners[1].9 {UNKNOWN}"),
    "in a map's entry": (entry(29, sized(1, b"a"), varint(3, 1)), f"unknown_field: $.counts{{0}}.3 {UNKNOWN}"),
    # taken for an unknown field, so that the column is at its default
    "fixed for a number": (tag(1, 5) + b"\0" * 4, f"wrong_wire_type: $.i32 {WIRE}"),
    "a number for text": (varint(15, 1), f"wrong_wire_type: $.text {WIRE}"),
    "a number for a message": (varint(21, 1), f"wrong_wire_type: $.inner {WIRE}"),
    "packed where nothing repeats": (sized(1, b"\x01"), f"wrong_wire_type: $.i32 {WIRE}"),
    "a group for a message": (tag(21, 3) + tag(21, 4), f"wrong_wire_type: $.inner {WIRE}"),
    # wrapped: -2**31, 0, true, and whatever the enum has at 1
    "int32 of 2**31": (varint(1, 1 << 31), f"out_of_range: $.i32 {RANGE}"),
    "int32 of 2**32 - 1": (varint(1, (1 << 32) - 1), f"out_of_range: $.i32 {RANGE}"),
    "int32 below": (varint(1, -(1 << 31) - 1), f"out_of_range: $.i32 {RANGE}"),
    "uint32 of 2**40": (varint(3, 1 << 40), f"out_of_range: $.u32 {RANGE}"),
    "uint32 of -1": (varint(3, -1), f"out_of_range: $.u32 {RANGE}"),
    "sint32 of 33 bits": (varint(5, 1 << 32), f"out_of_range: $.s32 {RANGE}"),
    "a bool of 2": (varint(7, 2), f"out_of_range: $.flag {RANGE}"),
    "an enum of 2**33 + 1": (varint(8, (1 << 33) + 1), f"out_of_range: $.color {RANGE}"),
    "packed int32 of 2**31": (sized(22, number(1) + number(1 << 31)), f"out_of_range: $.packed[1] {RANGE}"),
    "a packed bool of 2": (sized(47, b"\x01\x00\x02\x02"), f"out_of_range: $.flags[2] {RANGE}"),
    "a map's value": (entry(48, varint(1, 5), varint(2, 1 << 40)), f"out_of_range: $.by_u64[0].value {RANGE}"),
    "a time in year 0": (sized(36, varint(1, -62_135_596_801)), f"out_of_range: $.at {RANGE}"),
    "a time in year 10000": (sized(37, varint(1, 253_402_300_800)), f"out_of_range: $.times[0] {RANGE}"),
    "nanoseconds of a second": (sized(36, varint(2, 10**9)), f"out_of_range: $.at {RANGE}"),
    "nanoseconds below 0": (sized(36, varint(2, -1)), f"out_of_range: $.at {RANGE}"),
    # kept as a number
    "an enum's unknown number": (varint(8, 5), f"unknown_enum: $.color {NAMELESS}"),
    "one of several": (sized(25, number(-5) + number(5)), f"unknown_enum: $.colors[1] {NAMELESS}"),
    # the last one wins, messages are merged
    "a number twice": (varint(1, 1) + varint(1, 1), f"duplicate_field: $.i32 {TWICE}"),
    "and not in a row": (varint(1, 1) + varint(2, 1) + varint(1, 2), f"duplicate_field: $.i32 {TWICE}"),
    "a text twice": (sized(15, b"a") + sized(15, b"a"), f"duplicate_field: $.text {TWICE}"),
    "a message twice": (sized(21, b"") + sized(21, b""), f"duplicate_field: $.inner {TWICE}"),
    "in a message, twice": (sized(21, varint(1, 1) + varint(1, 1)), f"duplicate_field: $.inner.x {TWICE}"),
    "a key's field twice": (sized(29, sized(1, b"a") * 2), f"duplicate_field: $.counts{{0}}.key {TWICE}"),
    "two messages glued": ((varint(2, 5) + sized(15, b"a")) * 2, f"duplicate_field: $.i64 {TWICE}"),
    "two members of a oneof": (sized(33, b"a") + varint(34, 1), f"duplicate_field: $.b {TWICE}"),
    "in another order": (sized(35, b"") + sized(33, b"a"), f"duplicate_field: $.c {TWICE}"),
    "a key twice": (entry(29, sized(1, b"a"), varint(2, 1)) * 2, "duplicate_key: $.counts has a key twice"),
    "no key twice": (sized(29, b"") + sized(29, varint(2, 1)), "duplicate_key: $.counts has a key twice"),
    "a number twice as a key": (sized(31, varint(1, 1)) * 2, "duplicate_key: $.by_number has a key twice"),
    "true twice as a key": (sized(32, varint(1, 1)) * 2, "duplicate_key: $.by_flag has a key twice"),
    # what is too big
    "items": (varint(1, 1) + sized(22, b"\x01" * (ITEMS_MAX + 50)), "too_big: $.packed brings the items of one record "
              "above what is taken"),
    "items, one by one": (varint(23, 1) * (ITEMS_MAX + 50), "too_big: $.unpacked brings the items of one record "
                          "above what is taken"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_the_bad_row_is_refused_with_its_path_and_no_other(case: str) -> None:
    """Among good ones, alone, and beside itself: the same words."""
    bad, reason = REFUSED[case]
    good = varint(1, 7) + sized(22, b"\x01\x02") + sized(26, b"x")
    found = read([good, bad, good])
    assert dict(found.refused) == {1: reason}
    assert found.rows.tolist() == [0, 2] and found.record.field("packed").to_pylist() == [[1, 2], [1, 2]]
    assert dict(read([bad]).refused) == {0: reason}
    assert dict(read([bad, bad]).refused) == {0: reason, 1: reason}


@pytest.mark.parametrize("case", REFUSED)
def test_the_walk_over_the_wire_says_the_same(case: str) -> None:
    """The second opinion, which knows no bounds on sizes."""
    bad, reason = REFUSED[case]
    code = reason.partition(":")[0]
    if code != "too_big":
        assert code in proto_oracle.codes(bad, classes(EVERY)["every.Every"].DESCRIPTOR)


ACCEPTED = {
    "nothing at all": b"",
    "packed": sized(22, b"\x01\x02") + sized(23, b"\x01\x02"),
    "unpacked": varint(22, 1) + varint(22, 2) + varint(23, 1),
    "mixed, in its order": varint(22, 1) + sized(22, b"\x02\x03") + varint(22, 4) + sized(22, b"") + sized(22, b"\x05"),
    "in another order": sized(26, b"b") + varint(2, 9) + varint(1, 5) + sized(26, b"a") + varint(3, 1),
    "an empty message": sized(21, b""),
    "a default that was sent": varint(1, 0) + sized(15, b"") + varint(17, 0) + sized(18, b""),
    "padded numbers": tag(1, 0) + b"\x8a\x80\x00" + tag(15, 2) + b"\x81\x00a",
    "a padded tag": b"\x88\x00\x07",
    "int32 of ten bytes": varint(1, -1) + sized(22, number(-1) + number(-(1 << 31))),
    "the edges": varint(1, (1 << 31) - 1) + varint(2, -(1 << 63)) + varint(3, (1 << 32) - 1) + varint(4, (1 << 64) - 1),
    "more than 64 fields in a row": varint(22, 3) * 70 + sized(26, b"a") * 70,
    "two by turns": (varint(22, 3) + sized(26, b"a")) * 40 + (sized(26, b"a") + varint(22, 3)) * 40,
    "numbers of ten bytes, many": varint(22, -7) * 60,
    "no number, infinities": tag(14, 1) + struct.pack("<d", float("nan")) + sized(24, struct.pack("<d", float("inf"))),
    "a map's entry without anything": sized(29, b"") + sized(30, b"") + sized(44, b"") + sized(49, b""),
    "an entry, its value first": sized(29, varint(2, 3) + sized(1, b"k")),
    "a member of a oneof": varint(34, 0),
    "wrappers of nothing": sized(39, b"") + sized(40, b"") + sized(41, b"") * 3,
    "the largest field number": varint(536_870_911, 3),
    "the first time and the last": sized(37, varint(1, -62_135_596_800)) + sized(37, varint(1, 253_402_300_799)),
    "100,000 items": sized(22, b"\x01" * (ITEMS_MAX - 50)),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_whatever_the_spelling_the_values_are_those_of_google_s_parser(case: str) -> None:
    """Packed or not, in any order, absent or sent."""
    raw = ACCEPTED[case]
    kind = classes(EVERY)["every.Every"]
    found = read([varint(1, 7), raw, varint(1, 8)])
    assert not found.refused
    read_back = proto_oracle.plain(found.record[1].as_py())
    assert read_back == proto_oracle.plain(proto_oracle.value_of(kind.FromString(raw)))


def test_what_is_required_and_missing_is_a_reason() -> None:
    """Of the message, and of one in it; before it is looked whether text is any."""
    good, part = varint(1, 5), sized(1, b"n")
    values = [good, b"", good + sized(6, part) + sized(6, b""), good + sized(7, b""), good + sized(7, part)]
    found = read([*values, good], OLD, "old.Old")
    needed = "is required, but missing"
    assert dict(found.refused) == {
        1: f"missing_field: $.id {needed}",
        2: f"missing_field: $.parts[1].name {needed}",
        3: f"missing_field: $.part.name {needed}",
    }


def test_extensions_are_unknown_fields_and_unknown_numbers_of_closed_enums_are_refused() -> None:
    """Both are in no column, and Google's parser keeps them aside."""
    found = read([varint(1, 5) + varint(100, 1), varint(1, 5) + varint(3, 9)], OLD, "old.Old")
    assert [reason.partition(" ")[0] for reason in found.refused.values()] == ["unknown_field:", "unknown_enum:"]


def test_the_first_odd_thing_of_the_wire_is_told() -> None:
    """Then fields by their number, then what holds for the whole, then texts."""
    range_, text, tag_ = varint(1, 1 << 31), sized(15, b"\xff"), b"\x00"
    oneof = sized(33, b"a") + varint(34, 1)
    codes = [
        reason.partition(":")[0]
        for raw in (range_ + tag_, oneof + range_, text + oneof, text + range_, varint(8, 5) + range_)
        for reason in read([raw]).refused.values()
    ]
    assert codes == ["bad_tag", "out_of_range", "duplicate_field", "out_of_range", "out_of_range"]


def test_values_that_lose_digits_are_counted_where_they_are_rows() -> None:
    """Nanoseconds are cut towards the past, as microseconds begin."""
    fine = sized(36, varint(1, -1) + varint(2, 1_999)) + sized(37, varint(2, 1)) + sized(37, varint(2, 1_000))
    found = read([fine, fine + b"\x00", b""])
    assert found.truncated == 2
    assert found.record.field("at").cast(pa.int64()).to_pylist() == [-999_999, None]


def test_a_row_that_ends_early_reads_nothing_of_other_rows() -> None:
    """The first byte behind it would be a length that leads to the middle of the row in front of it."""
    first = b"".join(varint(3, one) for one in range(60))
    found = read([first, tag(2, 2), number(100)], EVERY, "every.Inner")
    assert [*found.refused] == [1, 2] and found.refused[1] == f"truncated: $.y {TRUNCATED}"
    assert found.record.field("z").to_pylist() == [[*range(60)]]
