"""Empty markers: a commit with the position only, for writers that had nothing to write. Pure."""

from __future__ import annotations

from collections.abc import Container

from exporter.core.writers import Writer, WriterKey, Writers


def due(writer: Writer, heartbeat_secs: float, now: float) -> bool:
    """True if the position may move without files: nothing staged, no unresolved commit, frontier beyond it."""
    return (
        not writer.staged
        and writer.claim is None
        and writer.parked is None
        and writer.frontier > writer.covered
        and now - writer.covered_at >= heartbeat_secs
    )


def markers_due(
    writers: Writers, heartbeat_secs: float, now: float, soon: Container[str] = ()
) -> dict[str, list[WriterKey]]:
    """Event type -> the writers whose marker is due. soon: types whose markers wait for nothing."""
    by_type: dict[str, list[WriterKey]] = {}
    for key in sorted(
        key for key, writer in writers.items() if due(writer, 0.0 if key.event_type in soon else heartbeat_secs, now)
    ):
        by_type.setdefault(key.event_type, []).append(key)
    return by_type
