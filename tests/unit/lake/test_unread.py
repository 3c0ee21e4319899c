"""What the storage does not do is told as an outage of the storage, whichever call it was."""

from __future__ import annotations

import pytest

from exporter.errors import StorageSilent, TableUnreadable
from exporter.lake.lake import Lake, stored_event_types, stored_jobs
from exporter.lake.later import Later
from exporter.lake.table import unread
from exporter.stores.memory import MemoryStore


class Throttled(MemoryStore):
    """Tells everybody to slow down."""

    def names(self, folder: str = "", after: str = "") -> list[str]:
        raise OSError(5, "503: slow down")

    def size(self, path: str) -> int | None:
        raise OSError(5, "503: slow down")


def test_a_listing_that_fails_is_an_outage():
    """A task that meets one goes on, or ends with 69: it says nothing of the tables, which would be 70."""
    with pytest.raises(StorageSilent, match="cannot be listed"):
        list(stored_event_types(Throttled("memory://throttled")))
    with pytest.raises(StorageSilent, match="cannot be listed"):
        stored_jobs(Throttled("memory://throttled"))


def test_a_look_for_empty_entries_that_fails_is_an_outage():
    """Not an error of the store that nobody expects."""
    lake = Lake(Later(lambda: None), Throttled("memory://throttled"), "app")
    with pytest.raises(StorageSilent, match="order cannot be read"):
        lake.table("order").empty_entries(3, 2)


@pytest.mark.parametrize("error", [FileNotFoundError(), PermissionError(), NotADirectoryError(), KeyError("a")])
def test_what_is_of_the_path_is_no_outage(error):
    """It would be the same a moment later."""
    assert type(unread("table order cannot be read", error)) is TableUnreadable
