"""Types that are met while a task runs. No table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from exporter.errors import InvariantBroken
from exporter.protocol.meeting import MetTypes
from offsets import Invariant


def test_dead_letters_that_were_taken_back_list_no_new_table() -> None:
    """MONOTONE: the commit would say that all before it was looked at, and hide the RESTORE from everybody."""
    registered: list[Any] = []
    lake = SimpleNamespace(table=lambda name: SimpleNamespace(view=lambda: SimpleNamespace(version=5)))
    anchors: Any = SimpleNamespace(
        lake=lake, require_dead_letters=lambda view, at: None, register=lambda views, at: registered.append(views)
    )

    def looked(table: Any, view: Any) -> Any:
        raise InvariantBroken(Invariant.MONOTONE, f"RESTORE at version {view.version}", "")

    topics: Any = SimpleNamespace(identities_of=lambda topics: {})
    reader: Any = SimpleNamespace(named_since=looked)
    with pytest.raises(InvariantBroken, match="RESTORE at version 5"):
        MetTypes(anchors=anchors, topics=topics, reader=reader).anchor({})
    assert not registered
    reader.named_since = lambda table, view: {}
    assert MetTypes(anchors=anchors, topics=topics, reader=reader).anchor({}) == {} and len(registered) == 1
