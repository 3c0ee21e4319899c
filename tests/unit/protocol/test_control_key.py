"""The key that offers are signed with, as a file beside the tables (protocol 4.11)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from exporter.protocol.control_key import control_key
from exporter.stores.memory import DISKS, MemoryStore


def test_all_tasks_of_an_app_have_one_key_and_other_apps_another_one(store: MemoryStore) -> None:
    """Whoever comes first makes it; one that was deleted is made anew, and is another one."""
    with ThreadPoolExecutor(8) as pool:
        (key,) = {*pool.map(lambda _: control_key(store, "app"), range(32))}
    assert len(key) == 64 and store.read("_control.keys/app") == key
    assert control_key(store, "other") != key
    DISKS.clear()
    assert control_key(store, "app") != key


@pytest.mark.parametrize("body", [b"", b"key", b"0" * 63 + b"\n", b"g" * 64, b"0" * 65])
def test_a_file_that_is_no_key_is_told_and_left_alone(store: MemoryStore, body: bytes) -> None:
    """An empty key would be anybody's."""
    store.create("_control.keys/app", body)
    with pytest.raises(ValueError, match="is no key; move it away"):
        control_key(store, "app")
    assert store.read("_control.keys/app") == body
