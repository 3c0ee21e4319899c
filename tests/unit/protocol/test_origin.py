"""exporter.protocol.origin."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from exporter.protocol.origin import origin
from exporter.stores.file import FileStore
from offsets.ranges import TopicPartition


def test_files_say_whose_they_are_and_are_written_as_the_settings_say() -> None:
    """In the table's folder, in the epoch and against the metadata of who writes them."""
    lake: Any = SimpleNamespace(
        app="app", compression="gzip", table=lambda name: SimpleNamespace(store=FileStore("/lake").below(name))
    )  # fmt: skip
    of = origin(lake, "x", "f", TopicPartition("t", 0), 2, {"routing": "r"})
    assert (of.store.uri(), of.event_type, of.compression) == ("/lake/x", "x", "gzip")
    assert (of.app, of.tp, of.epoch, of.fingerprint) == ("app", TopicPartition("t", 0), 2, "f")
    assert of.footer == {"routing": "r"}
