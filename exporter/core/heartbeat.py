"""Empty markers: a commit with the position only, for writers that had nothing to write. Pure."""

from __future__ import annotations

from collections.abc import Container

from exporter.core.writers import Writer, WriterKey, Writers


def due(writer: Writer, heartbeat_secs: float, now: float) -> bool:
    """True if the position may move without files, and has been behind for so long.

    It may with nothing staged, no unresolved commit and a frontier beyond it.
    """
    return (
        not writer.staged
        and writer.claim is None
        and writer.parked is None
        and writer.frontier > writer.covered
        and now - writer.behind_at >= heartbeat_secs
    )


def markers_due(
    writers: Writers, heartbeat_secs: float, now: float, soon: Container[str] = ()
) -> dict[str, list[WriterKey]]:
    """Event type -> the writers whose marker is due. soon: types whose markers wait for nothing.

    With the oldest of a type go all of it: each would be due a moment later, and have a commit of its own.
    """
    by_type: dict[str, list[WriterKey]] = {}
    for key, writer in writers.items():
        if due(writer, 0.0, now):
            by_type.setdefault(key.event_type, []).append(key)
    return {
        name: sorted(keys)
        for name, keys in sorted(by_type.items())
        if name in soon or any(due(writers[key], heartbeat_secs, now) for key in keys)
    }
