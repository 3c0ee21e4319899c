"""Decisions on ids of schemas, as files: in order, whole, once, whoever else records one at the same moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from exporter.core.schemas import SchemaText, UnknownId
from exporter.errors import InvariantBroken, RegistryUnreachable
from exporter.lake.lake import stored_event_types
from exporter.registry.pins import NOTHING, PinnedId, Pins
from exporter.stores.file import FileStore
from exporter.stores.memory import DISKS, MemoryStore
from exporter.stores.obstacles import in_the_way
from exporter.stores.store import Store
from offsets.names import BadName, event_type_of, pin_file, table_folder
from offsets.ranges import TopicPartition

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
LONG, TEXT = SchemaText("AVRO", '"long"'), SchemaText("AVRO", '"string"')
DEEP = SchemaText("AVRO", "ü\ud800", (("a.B", SchemaText("AVRO", "1", (("c", LONG),))), ("d", TEXT)))


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store without anything."""
    name = uuid4().hex
    yield MemoryStore.at(f"memory://{name}/lake") if request.param == "memory" else FileStore(str(tmp_path / "lake"))
    DISKS.pop(name, None)


def test_what_is_recorded_is_read_as_it_was(store: Store) -> None:
    """A text with all that it refers to, and of Protobuf what the registry gave."""
    pins = Pins(store, "default")
    assert pins.ids() == [] and pins.read(7) == NOTHING
    assert pins.add(7, DEEP) == pins.read(7) == PinnedId({}, DEEP, DEEP.text, 1)
    made = SchemaText("PROTOBUF", "c2V0")
    assert pins.add(12, made, "syntax = 1;") == pins.read(12) == PinnedId({}, made, "syntax = 1;", 1)
    assert pins.ids() == [7, 12] and Pins(store, "other").ids() == []


def test_unknown_comes_before_the_text_and_never_after(store: Store) -> None:
    """The chain of protocol 3.8, read as one decision of each kind."""
    pins = Pins(store, "default")
    pins.add(9, UnknownId({P0: 120, P1: 80}))
    assert pins.add(9, UnknownId({P0: 900})) == PinnedId({P0: 900, P1: 80}, None, "", 2)
    assert pins.add(9, LONG).decisions == (UnknownId({P0: 900, P1: 80}), LONG)
    before = pins.read(9)
    assert pins.add(9, TEXT) == pins.add(9, UnknownId({P0: 5_000})) == pins.read(9) == before
    assert sorted(store.names("_schemas.pins/default/9")) == ["0.json", "1.json", "2.json"]


def test_what_is_said_already_is_not_said_again(store: Store) -> None:
    """A task that comes second records nothing; one that knows of another partition does."""
    pins = Pins(store, "default")
    pins.add(9, UnknownId({P0: 120}))
    assert pins.add(9, UnknownId({P0: 120})).count == pins.add(9, UnknownId({P0: 3})).count == 1
    assert pins.add(9, UnknownId({})).count == 1
    assert pins.add(9, UnknownId({P0: 3, P1: 0})).unknown == {P0: 120, P1: 0}


def test_of_many_that_decide_at_once_each_goes_by_the_same(store: Store) -> None:
    """Whoever comes second reads again: one text in all, and nothing that was said before it is lost."""

    def decided(number: int) -> PinnedId:
        if number % 4 == 3:
            return Pins(store, "default").add(9, SchemaText("AVRO", str(number)))
        return Pins(store, "default").add(9, UnknownId({TopicPartition("t", number): number}))

    with ThreadPoolExecutor(8) as pool:
        told = [*pool.map(decided, range(32))]
    final = Pins(store, "default").read(9)
    assert final.text and {one.text for one in told} <= {None, final.text}
    for number, one in enumerate(told):
        if one.text is None:
            assert final.unknown[TopicPartition("t", number)] == number
        assert one.unknown.items() <= final.unknown.items()
    assert final.count == len(store.names("_schemas.pins/default/9"))


def test_of_two_processes_one_records(tmp_path: Path) -> None:
    """Each is told what counts, and it is the same."""
    program = (
        "import sys; from exporter.core.schemas import SchemaText; from exporter.registry.pins import Pins;"
        "from exporter.stores.file import FileStore; pins = Pins(FileStore(sys.argv[1]), 'default');"
        "sys.stdin.readline(); print([pins.add(n, SchemaText('AVRO', sys.argv[2])).text.text for n in range(50)])"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
        for name in ("one", "other")
    ]  # fmt: skip
    for process in running:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate(timeout=60)[0] for process in running]
    assert told[0] == told[1] and told[0].count("one") + told[0].count("other") == 50


def test_a_crash_in_the_middle_leaves_nothing_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision is there whole or not at all; what is left of one is passed over."""
    store = FileStore(str(tmp_path))
    pins = Pins(store, "default")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", killed)
        patched.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            pins.add(9, LONG)
    (left,) = store.names("_schemas.pins/default/9")
    assert left.startswith(".") and pins.read(9) == NOTHING
    assert pins.ids() == [9], "an id whose decision never came"
    assert pins.add(9, TEXT).text == TEXT == pins.read(9).text


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "damaged"),
        (b"{", "damaged"),
        (b"[]", "damaged"),
        (b"{}", "damaged"),
        ({"version": 2}, "of version 2"),
        ({"registry": "other"}, "about id 9 of other"),
        ({"id": 8}, "about id 8"),
        ({"decision": "maybe"}, "decides 'maybe'"),
        ({"kind": "XML"}, "of the kind 'XML'"),
        ({"text": "another"}, "another sha256"),
        ({"references": [{"name": "x"}]}, "damaged"),
        ({"decision": "unknown", "through": {"orders": {"zero": 1}}}, "damaged"),
        ({"decision": "unknown", "through": 7}, "damaged"),
    ],
    ids=str,
)  # fmt: skip
def test_a_damaged_decision_stops_with_a_hint(store: Store, body: object, says: str) -> None:
    """Exit 70: to go on without it would be to read records otherwise than before."""
    pins = Pins(store, "default")
    if not isinstance(body, bytes):
        elsewhere = MemoryStore.at(f"memory://{uuid4().hex}")
        Pins(elsewhere, "default").add(9, LONG)
        good = json.loads(elsewhere.read("_schemas.pins/default/9/0.json"))
        assert isinstance(body, dict)
        body = json.dumps({**good, **body}).encode()
    store.write_once("_schemas.pins/default/9/0.json", body)
    for asked in (lambda: pins.read(9), lambda: pins.add(9, TEXT)):
        with pytest.raises(InvariantBroken, match=says) as caught:
            asked()
        assert caught.value.exit_code == 70 and "0.json" in caught.value.message and caught.value.hint


def test_a_gap_in_the_numbers_stops_with_a_hint(store: Store) -> None:
    """A decision was taken away; so does one that follows a text, and whatever is no number."""
    pins = Pins(store, "default")
    pins.add(8, UnknownId({P0: 1}))
    body = store.read("_schemas.pins/default/8/0.json")
    store.write_once("_schemas.pins/default/8/2.json", body)
    with pytest.raises(InvariantBroken, match=r"2\.json, and no 1\.json"):
        pins.read(8)
    pins.add(9, LONG)
    store.write_once("_schemas.pins/default/9/1.json", body)
    with pytest.raises(InvariantBroken, match="follows a text"):
        pins.read(9)
    store.write_once("_schemas.pins/default/10/notes.txt", b"")
    with pytest.raises(InvariantBroken, match=r"notes\.txt: it is not ours"):
        pins.read(10)
    store.write_once("_schemas.pins/default/011/0.json", b"")
    with pytest.raises(InvariantBroken, match="011: it is not ours"):
        pins.ids()


def test_a_storage_that_is_out_is_no_decision(tmp_path: Path) -> None:
    """Exit 69 in the end; a task waits."""
    (tmp_path / "_schemas.pins").write_text("in the way")
    pins = Pins(FileStore(str(tmp_path)), "default")
    for asked in (lambda: pins.read(9), lambda: pins.add(9, LONG)):
        with pytest.raises(RegistryUnreachable, match=r"_schemas\.pins"):
            asked()


def test_a_listing_that_is_late_hides_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is looked for by its name."""
    store = MemoryStore.at(f"memory://{uuid4().hex}/lake")
    store.disk.lists_late = True
    pins = Pins(store, "default")
    pins.add(9, UnknownId({P0: 1}))
    assert pins.add(9, LONG).count == 2 and pins.read(9).text == LONG


def test_names_of_registries_are_folders_and_no_event_type_has_such_a_folder() -> None:
    """So VACUUM of no table of ours ever comes near."""
    assert pin_file("default", 7, 0) == "_schemas.pins/default/7/0.json"
    for name in ("", "a/b", "..", "a b", "a.b", "x" * 300, "_delta_log"):
        with pytest.raises(BadName):
            pin_file(name, 7, 0)
    for numbers in ((-1, 0), (0, -1)):
        with pytest.raises(BadName):
            pin_file("default", *numbers)
    assert table_folder("_schemas.pins") != "_schemas.pins"
    with pytest.raises(BadName):
        event_type_of("_schemas.pins")


def test_no_table_is_seen_where_decisions_are(store: Store) -> None:
    """By what lists the tables for the sweep, the audit, the maintenance and everything else, nor by an odd name."""
    Pins(store, "default").add(7, LONG)
    store.write_once("_schemas.pins/_delta_log/00000000000000000000.json", b"{}")
    store.write_once("order/_delta_log/00000000000000000000.json", b"{}")
    assert [*stored_event_types(store)] == ["order"] and [*in_the_way(store, ["order", "_schemas.pins"])] == []


def test_what_was_read_is_brought_to_disk_by_whoever_goes_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its writer may have been killed before it could; the folders from the id's to the root."""
    store = MemoryStore.at(f"memory://{uuid4().hex}/lake")
    pins = Pins(store, "default")
    pins.add(9, LONG)
    pins.settle([9])
    below = {place.removeprefix(store.uri()).strip("/") for place in store.disk.synced}
    assert below == {"_schemas.pins/default/9", "_schemas.pins/default", "_schemas.pins", ""}
    Pins(store, "default", sync=False).settle([9])
    assert len(store.disk.synced) == 4
