"""The order in which tables are read, and which of them are whose."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import TableUnreadable
from exporter.lake.views import views_of
from offsets.table_log import APP_PROPERTY, TableView

APP = "exporter"


def view(app: str | None) -> TableView:
    properties = {} if app is None else {APP_PROPERTY: app}
    return TableView(0, "id", "fingerprint", {}, properties, ("day",), "{}", 1, ())


class FakeLake:
    """Tables by name, each with the app that it says it is of; it writes down which it was asked for."""

    app = APP

    def __init__(self, **apps: str | None) -> None:
        self.apps = apps
        self.unreadable = ""
        self.read: list[str] = []

    def event_types(self) -> tuple[str, ...]:
        return tuple(sorted(self.apps))

    def table(self, name: str) -> Any:
        return FakeTable(self, name)


class FakeTable:
    def __init__(self, lake: FakeLake, name: str) -> None:
        self.lake, self.name = lake, name

    def view(self) -> TableView | None:
        self.lake.read.append(self.name)
        if self.name == self.lake.unreadable:
            raise TableUnreadable(f"table {self.name} cannot be read")
        return view(self.lake.apps[self.name]) if self.name in self.lake.apps else None


@pytest.fixture
def lake() -> Any:
    return FakeLake(zebra=APP, dead_letters=APP, order=APP, foreign="other", nobodys=None)


def test_the_dead_letters_are_read_last(lake: Any) -> None:
    """Protocol 5.1: what they speak of was there before they said so."""
    assert [name for name, _ in views_of(lake)] == ["order", "zebra", DEAD_LETTERS]
    assert lake.read == ["foreign", "nobodys", "order", "zebra", DEAD_LETTERS]


def test_one_table_is_read_at_a_time(lake: Any) -> None:
    """Whoever looks closer at a table does so before the next one is read."""
    reading = views_of(lake)
    next(reading)
    assert lake.read == ["foreign", "nobodys", "order"]


def test_the_dead_letters_are_asked_for_although_the_listing_lacks_them() -> None:
    """They may have been made since."""
    lake: Any = FakeLake(order=APP)
    assert [name for name, _ in views_of(lake)] == ["order"]
    assert lake.read == ["order", DEAD_LETTERS]


def test_tables_of_others_are_kept_if_they_are_asked_for(lake: Any) -> None:
    """A repair looks at all that is there."""
    assert [name for name, _ in views_of(lake, others="keep")] == ["foreign", "nobodys", "order", "zebra", DEAD_LETTERS]


def test_only_the_named_tables_are_read(lake: Any) -> None:
    """In the same order; one that is not there is passed over."""
    assert [name for name, _ in views_of(lake, ["zebra", DEAD_LETTERS, "none", "order"])] == [
        "order", "zebra", DEAD_LETTERS,
    ]  # fmt: skip
    assert [name for name, _ in views_of(lake, ["zebra"])] == ["zebra"]
    assert [name for name, _ in views_of(lake, but=(DEAD_LETTERS, "order"))] == ["zebra"]


def test_a_table_that_cannot_be_read_ends_the_reading(lake: Any) -> None:
    """It is never taken for one that is not there."""
    lake.unreadable = "zebra"
    with pytest.raises(TableUnreadable):
        dict(views_of(lake))
