"""Offsets and ranges as a person types them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from exporter.errors import ConfigError
from exporter.kafka.topics import FirstPosition, TopicReader, partitions_of
from offsets.ranges import OffsetRange, TopicPartition
from offsets.selection import Topics


def parse_offsets(text: str, topics: Topics) -> dict[TopicPartition, int]:
    """'0:1000,1:500', or with several topics 'a:0:1000' -> first offset to look at. Raises ConfigError."""
    starts: dict[TopicPartition, int] = {}
    only = topics.names[0] if len(topics.names) == 1 else ""
    for part in text.split(","):
        *named, partition, start = ["", *(piece.strip() for piece in part.split(":"))]
        topic = named[-1] if len(named) == 2 else only
        if len(named) > 2 or not topic or not all(n.isascii() and n.isdigit() for n in (partition, start)):
            raise ConfigError(
                f"{part.strip()!r} is no time, PARTITION:OFFSET nor TOPIC:PARTITION:OFFSET",
                "write for example 24h, 2025-03-09T06:00Z, 0:1000,1:500, or with several topics orders:0:1000",
            )
        tp = TopicPartition(topic, int(partition))
        if not topics.match(topic):
            raise ConfigError(f"topic {topic!r} is not exported", f"the settings say {topics}")
        if tp in starts:
            raise ConfigError(f"partition {tp} is named twice", "write each partition once")
        starts[tp] = int(start)
    return starts


_AGO = re.compile(r"([1-9][0-9]{0,4})([mhd])")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


@dataclass(frozen=True)
class Since:
    """Where to begin: at offsets, and those that are not named from the beginning; or at a time of the records."""

    at: FirstPosition | Mapping[TopicPartition, int]

    def offsets(self, topics: TopicReader) -> Mapping[TopicPartition, int]:
        """The first offset of each partition. Raises BrokerSilent."""
        if isinstance(self.at, FirstPosition):
            return self.at.offsets(topics, partitions_of(topics.identities()))
        return self.at


def parse_since(text: str, topics: Topics, now: datetime) -> Since:
    """'24h', '2025-03-09T06:00Z' (UTC if it says no zone), or what parse_offsets takes. Raises ConfigError."""
    if ago := _AGO.fullmatch(text):
        at = now - int(ago[1]) * _UNITS[ago[2]]
    else:
        try:
            at = datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError:
            return Since(parse_offsets(text, topics))
    at = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
    return Since(FirstPosition(max(0, int(at.timestamp() * 1000))))


_RANGE = re.compile(
    r"(?:(?P<topic>[A-Za-z0-9._-]+):)?(?P<partition>[0-9]{1,9}):(?P<first>[0-9]{1,18})(?:-(?P<last>[0-9]{1,18}))?"
)


def parse_ranges(text: str, topics: Sequence[str]) -> tuple[tuple[TopicPartition, OffsetRange], ...]:
    """'0:17', '0:17-20,1:5', with several topics 'orders:0:17-20'. topics: those to which a bare partition may belong.

    Raises ConfigError.
    """
    found = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = _RANGE.fullmatch(part)
        topic = match["topic"] or (topics[0] if len(topics) == 1 else "") if match else ""
        first, last = (int(match["first"]), int(match["last"] or match["first"])) if match else (0, -1)
        if match is None or not topic or first > last:
            raise ConfigError(
                f"{part!r} is no PARTITION:FIRST[-LAST] nor TOPIC:PARTITION:FIRST[-LAST]",
                "write for example 0:17-20,1:5, or with several topics orders:0:17-20",
            )
        found.append((TopicPartition(topic, int(match["partition"])), OffsetRange(first, last)))
    return tuple(found)
