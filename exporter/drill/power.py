"""A power cut, played on a lake whose tasks are dead: what nobody was told of may be gone, whole or in part.

    kill -9 of all tasks ── cut(lake, {"order": 17}, rng) ── start again, audit

What a task was told is committed is on disk, with all that it names: that is what `sync` promises, so it stays as it
is. Of the rest each may be there, gone, empty or half, as the dice say. Nothing is read through the exporter's code.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from offsets.names import event_type_of

DIGITS = 20


def cut(root: Path, unacknowledged: Mapping[str, int], rng: random.Random) -> list[str]:
    """Take away or damage what a power cut may; what became of what, for the reader of a drill.

    unacknowledged: event type -> the first version of its table that no task was told of. Of other tables all stay.
    """
    told: list[str] = []
    for log in sorted(root.glob("*/_delta_log")):
        first = unacknowledged.get(event_type_of(log.parent.name))
        entries = sorted(path for path in log.glob("*.json") if path.stem.isdigit() and len(path.stem) == DIGITS)
        newest = len(entries)
        if first is not None:
            newest = rng.randint(sum(int(path.stem) < first for path in entries), len(entries))
        for path in entries[newest:]:
            path.unlink()
            told.append(f"{path.relative_to(root)}: gone")
        named = {name for path in entries[:newest] for name in _named(path)}
        loose = [path for path in log.parent.glob("day=*/*.parquet") if str(path.relative_to(log.parent)) not in named]
        for path in (*sorted(loose), *sorted(log.glob("*.crc")), *sorted(log.glob(".*"))):
            if what := _damaged(path, rng):
                told.append(f"{path.relative_to(root)}: {what}")
    return told


def _named(entry: Path) -> Iterator[str]:
    """The data files that a version adds."""
    for line in entry.read_text("utf-8").splitlines():
        action = json.loads(line) if line.strip() else {}
        if "add" in action:
            yield unquote(action["add"]["path"])


def _damaged(path: Path, rng: random.Random) -> str:
    """What became of a file that was not synced; empty: it is there all the same."""
    what = rng.choice(("", "", "gone", "empty", "half", "zeros"))
    if what:
        body = path.read_bytes()
        path.unlink()  # it may be the other name of a version, which was synced before it got that one
        if what != "gone":
            path.write_bytes({"empty": b"", "half": body[: len(body) // 2], "zeros": bytes(len(body))}[what])
    return what
