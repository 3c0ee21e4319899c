"""Which data files may be deleted (TEMP; protocol, section 6). Pure.

    listed ── then one snapshot ── named by it, live or tombstone ───────────── stays
                                   last offset <= version of its name's appId ─ dead
                                   the table is in a later epoch ────────────── dead
                                   anything else: may still be committed ────── stays

A commit that adds a file of epoch e lands only while the table's position is in e and below the file's first
offset (FENCE). A position never goes back (MONOTONE), so once it has reached the file's last offset no commit can
name the file any more, whoever holds it. The tombstone of a closed epoch is Long.MaxValue: whatever still bears that
epoch is dead, what was staged beyond its seal as well. A later epoch closes one that the table does not know, too: a
task has staged for a type that it met, and was gone before it anchored the table. Else such an epoch says nothing.

The snapshot must be taken AFTER the listing: a file that was committed before that is named by it. No clock.
A replay of dead letters adds files at or below the position. Its commit is a compare-and-set on its number n, which no
other commit has: once replay n, or a later one, is in the table no commit can name a file of n any more.

A file that its writer was killed over has its final name from its first byte, and falls under the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from offsets.names import AppId, BadName, DataFile
from offsets.positions import last_replay, live_position


def may_be_dead(paths: Iterable[str], app: str, transactions: Mapping[str, int]) -> dict[str, str]:
    """File name -> path, of the listed data files of `app` that no commit can add any more.

    paths: relative to the table's folder, listed before the snapshot that `transactions` are from. What that snapshot
    names has still to be taken off.
    """
    candidates: dict[str, str] = {}
    for path in paths:
        try:
            name = DataFile.parse(path)
        except BadName:
            continue
        if name.app == app and _is_dead(name, transactions):
            candidates[file_name(path)] = path
    return candidates


def _is_dead(name: DataFile, transactions: Mapping[str, int]) -> bool:
    if name.replay is not None:
        return name.replay <= last_replay(transactions, name.app, name.tp)
    if _is_closed(name, transactions):
        return True
    return name.last_offset <= transactions.get(str(AppId(name.app, name.tp, name.epoch)), -1)


def _is_closed(name: DataFile, transactions: Mapping[str, int]) -> bool:
    """Whether the table is in a later epoch, be it that it was never in that of the name."""
    at = live_position(transactions, name.app, name.tp)
    return at is not None and at.epoch > name.epoch


def spare(candidates: dict[str, str], named: Iterable[str]) -> None:
    """Take off what the snapshot names. named: paths of its live files and tombstones, in any spelling of the folder.

    Compared by the name alone, which is unique by its attempt: an absolute path or one of a clone spares it too.
    """
    for path in named:
        candidates.pop(file_name(path), None)


def file_name(path: str) -> str:
    """The last part of a path; names of ours hold nothing that a URL would encode."""
    return path.rpartition("/")[2]
