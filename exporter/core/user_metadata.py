"""What a commit says of itself, for whoever reads the table's history or looks for the commit later (protocol 4.5).

    commit_id         under which it is found when its reply was lost
    app               whose positions it moves
    checked_through   the newest version of the table whose operations were looked at before it
    partitions        what it says of each; of a commit that moves no position there is none
    action            what start-up, a repair or a replay did; none for the commits of an export

offsets/table_log.py reads it back. The keys are stored, sorted: a new one is added, none is renamed. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporter.core.valid_through import as_text
from exporter.core.writers import Claim
from offsets.positions import Position
from offsets.ranges import TopicPartition

Said = Mapping[str, Any]


def user_metadata(
    commit_id: str,
    *,
    app: str,
    checked_through: int,
    partitions: Mapping[TopicPartition, Said] | None = None,
    action: str = "",
    more: Said | None = None,
) -> dict[str, Any]:
    """The userMetadata of one commit. partitions: None where it moves no position. more: further keys."""
    return {
        **(more or {}),
        "commit_id": commit_id,
        **({"action": action} if action else {}),
        "app": app,
        "checked_through": checked_through,
        **({} if partitions is None else {"partitions": {str(tp): dict(said) for tp, said in partitions.items()}}),
    }


def moved_to(position: Position) -> Said:
    """Of a partition that begins at a position, without a row: an anchor, a seal, a repair."""
    return {"epoch": position.epoch, "new": position.offset}


def claimed(claim: Claim, token: int | None = None) -> Said:
    """Of a partition whose writer has rolled.

    token: of the lease, for the reader of the history; the compare-and-set decides (protocol 8).
    """
    first = min((file.offsets.first_offset for file in claim.files), default=None)
    last = max((file.offsets.last_offset for file in claim.files), default=None)
    return {"epoch": claim.epoch, "expected": claim.expected, "new": claim.new,
            "first": first, "last": last, "rows": claim.rows,
            **({"filtered": claim.filtered} if claim.filtered else {}),
            **({"time": as_text(claim.time_ms)} if claim.time_ms else {}),
            **({} if token is None else {"token": token})}  # fmt: skip
