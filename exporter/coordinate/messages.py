"""What stands in the control topic: messages of core/coordination.py as JSON, version 1. Pure (protocol 4.11).

Whoever may write to the topic can write anything. What cannot be read is told apart here; what is made up is refused
by the leader and by the tables. Readers pass over keys that they do not know; any other change is a new version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, Literal

import msgspec
import msgspec.structs
from msgspec import Meta, Struct

from exporter.coordinate.signature import SIGNATURE_PATTERN
from exporter.core.coordination import Begin, Message, Offer, OfferedClaim, Outcome, Ready
from offsets.ranges import TopicPartition

VERSION: Literal[1] = 1

_Text = Annotated[str, Meta(max_length=1000)]
_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Offset = Annotated[int, Meta(ge=-1, le=2**63 - 1)]
_CommitId = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,100}$")]
_RoundId = Annotated[str, Meta(max_length=100, description="Empty: of no round.")]
_Partition = Annotated[str, Meta(pattern="^[A-Za-z0-9._-]{1,249}-[0-9]{1,9}$")]
_Manifest = Annotated[
    str,
    Meta(
        pattern=r"^(_exporter/offers/[A-Za-z0-9_-]{1,100}\.json)?$",
        description="The file in the table's folder that holds adds and fits, if they are more than a message should "
        "hold; both are empty then.",
    ),
]


_SIGNATURE = {
    "description": "HMAC-SHA256, in hex, of the message without it, under the app's key. The last key of the message.",
    "type": "string",
    "pattern": SIGNATURE_PATTERN,
}


class _Claim(Struct, frozen=True):
    """What has to be in what is said of a partition."""

    epoch: _Count
    expected: _Offset
    new: _Offset


_Said = Annotated[
    dict[str, Any],
    Meta(
        description="What the commit's metadata are to say of the partition.",
        extra_json_schema={
            **{name: msgspec.json.schema(_Claim)["$defs"]["_Claim"][name] for name in ("properties", "required")},
        },
    ),
]
_Add = Annotated[dict[str, Any], Meta(description="A Delta add action.")]
_Fit = Annotated[tuple[str, str], Meta(description="Fingerprint and columns of the table that a file was staged for.")]


class _Wire(Struct, frozen=True, kw_only=True, tag_field="kind"):
    v: Literal[1]
    app: _Text


class _Begin(_Wire, frozen=True, tag="begin"):
    """Leader to all: a round begins."""

    leader: _Text
    round_id: _RoundId
    number: _Count


class _Offer(_Wire, frozen=True, tag="offer"):
    """Task to leader: claims on one table, which land all in one commit or not at all."""

    id: _CommitId
    owner: _Text
    table: _Text
    table_id: _Text
    round_id: _RoundId
    base_version: Annotated[int, Meta(ge=-1, le=2**63 - 1)]
    claims: Annotated[dict[_Partition, _Said], Meta(min_length=1)]
    adds: tuple[_Add, ...] = ()
    fits: tuple[_Fit, ...] = ()
    manifest: _Manifest = ""


class _Ready(_Wire, frozen=True, tag="ready"):
    """Task to leader: all that it has for the round is offered; these partitions are the task's."""

    owner: _Text
    round_id: _RoundId
    partitions: tuple[_Partition, ...]


class _Outcome(_Wire, frozen=True, tag="outcome"):
    """Leader to all: what became of offers on one table. A hint, which the task verifies in the table's log."""

    leader: _Text
    round_id: _RoundId
    table: _Text
    version: Annotated[_Count | None, Meta(description="Of the commit; null: none landed by it.")]
    rows: _Count = 0
    landed: tuple[_CommitId, ...] = ()
    dropped: dict[_CommitId, str] = {}


_DECODER = msgspec.json.Decoder(_Begin | _Offer | _Ready | _Outcome)
_OFFER = b'{"kind":"offer",'


class Unreadable(ValueError):
    """No message of this version and app; it says why."""


def encode(message: Message) -> bytes:
    """A message as the bytes of its JSON."""
    return msgspec.json.encode(_sent(message))


def decode(value: bytes, app: str) -> Message:
    """The message that a value is. Raises Unreadable."""
    try:
        message = _received(_DECODER.decode(value))
    except (ValueError, RecursionError) as error:  # the library's, and of bytes that are not UTF-8
        raise Unreadable(str(error)) from error
    if message.app != app:
        raise Unreadable(f"of another app: {message.app}")
    return message


def is_offer(value: bytes) -> bool:
    """Whether it begins as this module writes one. Decoding one of many partitions costs much more."""
    return value.startswith(_OFFER)


def schema() -> dict[str, Any]:
    """JSON Schema of all messages, as the handbook shows it."""
    found = msgspec.json.schema(_Begin | _Offer | _Ready | _Outcome)
    definitions = {name.strip("_"): {**one, "title": name.strip("_")} for name, one in found.pop("$defs").items()}
    definitions["Offer"]["properties"] |= {"signature": _SIGNATURE}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in definitions],
        "$defs": definitions,
    }


_WIRE: Mapping[type[Message], type[_Wire]] = {Begin: _Begin, Offer: _Offer, Ready: _Ready, Outcome: _Outcome}
_MESSAGE = {wire: message for message, wire in _WIRE.items()}


def _sent(message: Message) -> _Wire:
    """Its fields under their names; partitions are texts, and so are claims by theirs."""
    said = {one.name: getattr(message, one.name) for one in fields(message)}
    match message:
        case Ready():
            said["partitions"] = tuple(map(str, message.partitions))
        case Offer():
            said["claims"] = {
                str(one.tp): {**one.said, "epoch": one.epoch, "expected": one.expected, "new": one.new}
                for one in message.claims
            }
    return _WIRE[type(message)](v=VERSION, **said)


def _received(wire: _Wire) -> Message:
    """A message of its wire form. Raises ValueError if it cannot be one."""
    said = msgspec.structs.asdict(wire)
    del said["v"]
    match wire:
        case _Ready():
            said["partitions"] = tuple(map(_partition, wire.partitions))
        case _Offer():
            said["claims"] = tuple(_claim(tp, one) for tp, one in wire.claims.items())
    return _MESSAGE[type(wire)](**said)


def _claim(tp: str, said: dict[str, Any]) -> OfferedClaim:
    """The positions stand once in a message, among what is said: they cannot contradict each other."""
    position = msgspec.convert(said, _Claim)
    return OfferedClaim(_partition(tp), position.epoch, position.expected, position.new, said)


def _partition(text: str) -> TopicPartition:
    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition))
