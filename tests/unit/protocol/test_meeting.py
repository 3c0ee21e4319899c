"""Types that are met while a task runs. No table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import WriterKey
from exporter.errors import InvariantBroken
from exporter.lake.settling import Failed
from exporter.protocol.meeting import MetTypes
from offsets import Invariant
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import APP_PROPERTY


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


@pytest.mark.parametrize(
    ("error", "trouble", "made_with"),
    [
        (ValueError("[DELTA_RESERVED] not this name"), "", ["planned", None]),
        (OSError("503: the reply was lost"), "", ["planned"]),
        (ValueError("the JVM says so in words of its own"), "503: slow down", ["planned"]),
    ],
)
def test_a_table_is_made_without_its_columns_only_where_they_are_refused(
    error: Exception, trouble: str, made_with: list[str | None]
) -> None:
    """A storage that did not do it may do it a second later: the rows of the type's first records have them then."""
    tried: list[str | None] = []
    views: dict[str, Any] = {DEAD_LETTERS: SimpleNamespace(version=5)}

    def table(name: str) -> Any:
        return SimpleNamespace(event_type=name, view=lambda: views.get(name), says_storage=lambda error: False)

    def anchor(name: str, view: Any, absent: Any, identities: Any, schema: str | None) -> None:
        tried.append(schema)
        if schema is not None:
            raise Failed(table(name), error)
        views[name] = SimpleNamespace(version=0, properties={APP_PROPERTY: "app"})

    anchors: Any = SimpleNamespace(
        lake=SimpleNamespace(table=table, app="app", store=SimpleNamespace(trouble=lambda: trouble)),
        anchor_type=anchor, register=lambda *args: None, require_dead_letters=lambda *args: None,
    )  # fmt: skip
    topics: Any = SimpleNamespace(identities_of=lambda topics: {})
    state = SimpleNamespace(position=Position(0, 4), left_behind=lambda epoch: False)
    reader: Any = SimpleNamespace(named_since=lambda *args: {}, state=lambda *args: state)
    met = MetTypes(anchors=anchors, topics=topics, reader=reader)
    wanted = {WriterKey("order", TopicPartition("t", 0)): Position(0, 4)}
    if made_with[-1] is None:
        met.anchor(wanted, {"order": "planned"})
    else:
        with pytest.raises(Failed):
            met.anchor(wanted, {"order": "planned"})
    assert tried == made_with
