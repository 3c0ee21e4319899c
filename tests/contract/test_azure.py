"""What Azure's store does beside what every store does."""

from __future__ import annotations

import pytest

from exporter.stores.store import Entry, Store
from tests.support.services import fresh_name

pytestmark = pytest.mark.xdist_group("azure")


def test_the_mark_of_a_folder_is_no_file(azure: Store) -> None:
    """Hadoop makes an empty object of a folder's name, where an account knows no folders; an empty file is one."""
    store = azure.below(fresh_name("lake"))
    for path in ("order", "order/day=1"):
        store.write_once(path, b"")
    store.write_once("order/day=1/x", b"1")
    store.write_once("order/empty", b"")
    assert store.names() == ["order"] and [*store.files()] == [] and not store.has_file("order")
    assert [*store.files("order")] == [Entry("order/empty", 0)] and store.size("order/empty") == 0
    assert store.size("order/day=1") is None and store.has_folder("order/day=1")


def test_why_nothing_can_be_written_is_told_in_a_line(azure: Store) -> None:
    """With what a person has to do."""
    error = type(azure).at(azure.uri().replace("lake", "other", 1)).unwritable()
    assert error is not None
    assert error.message.endswith("ContainerNotFound: The specified container does not exist.")
    assert error.hint == "make the container, or correct `table_root`"
