"""Offers that are larger than a message should be, and the files that hold them (protocol 4.11)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from exporter.core.coordination import Offer
from exporter.protocol.offering import lightened, offered_paths, whole
from exporter.stores.memory import MemoryStore

OFFER = Offer("app", "a1", "task", "order", "id", "round", 3, (), ({"path": "day=1/a%20b"},), (("f" * 16, "{}"),))
MANIFEST = "_exporter/offers/a1.json"


def test_a_small_offer_is_said_as_it_is(store: MemoryStore) -> None:
    """And costs no file."""
    assert lightened(store, OFFER) is OFFER and whole(store, OFFER) is OFFER
    assert [*store.files("_exporter/offers")] == []


def test_a_large_offer_comes_back_from_its_file(store: MemoryStore) -> None:
    """Said twice it is written once; its files are told to the sweep as they are called."""
    for _ in range(2):
        light = lightened(store, OFFER, bytes_max=10)
    assert light == replace(OFFER, adds=(), fits=(), manifest=MANIFEST)
    assert whole(store, light) == OFFER
    assert offered_paths(store, MANIFEST) == ["day=1/a b"]


@pytest.mark.parametrize("manifest", ["_exporter/offers/b2.json", "../click/_exporter/offers/a1.json", "/etc/passwd"])
def test_a_manifest_that_is_not_its_own_is_not_read(store: MemoryStore, manifest: str) -> None:
    """Wherever a message leads."""
    with pytest.raises(ValueError, match="not its own"):
        whole(store, replace(OFFER, adds=(), fits=(), manifest=manifest))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"adds": {}, "fits": []}', '{"adds": [1], "fits": [3]}'])
def test_a_manifest_that_is_none_is_an_error_of_its_offer(store: MemoryStore, text: str) -> None:
    """The offer is left out, and the sweep may take the file; one that cannot be read now it leaves."""
    light = replace(OFFER, adds=(), fits=(), manifest=MANIFEST)
    with pytest.raises(OSError):
        whole(store, light)
    assert offered_paths(store, MANIFEST) is None
    store.create(MANIFEST, text.encode())
    with pytest.raises((ValueError, TypeError)):
        whole(store, light)
    assert offered_paths(store, MANIFEST) == []


def test_a_broken_add_is_no_path(store: MemoryStore) -> None:
    """A file that says nothing of what it holds may go."""
    store.create(MANIFEST, json.dumps({"adds": [{"path": 3}], "fits": []}).encode())
    assert offered_paths(store, MANIFEST) == []
