"""Decisions on ids: the files first, then a registry that is the one that it was, and its answer for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from exporter.core.schemas import SchemaText, UnknownId
from exporter.errors import ConfigError, InvariantBroken, RegistryUnreachable
from exporter.formats.registered import registered
from exporter.registry.options import RegistryOptions
from exporter.registry.pins import Pins
from exporter.registry.source import Registry
from exporter.stores.memory import MemoryStore
from offsets.ranges import TopicPartition
from tests.support.fake_registry import Failure, FakeRegistry, wait_for
from tests.support.schemas import fields

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
ENDS = {P0: 100, P1: 50}
RECORD = '{"type": "record", "name": "Order", "fields": []}'


@pytest.fixture
def server() -> Iterator[FakeRegistry]:
    """A registry that is well and has one schema, with the id 1."""
    with FakeRegistry() as found:
        found.add("orders-value", RECORD)
        yield found


def options(server: FakeRegistry, **given: Any) -> RegistryOptions:
    return RegistryOptions((server.url,), timeout_secs=2.0, **given)


def started(store: MemoryStore, given: RegistryOptions) -> Registry:
    made = Registry(given, store)
    made.start()
    return made


def test_an_id_is_read_by_what_is_registered_under_it_for_ever(server: FakeRegistry, store: MemoryStore) -> None:
    """Asked once, recorded, known; the next task needs no registry."""
    registry = started(store, options(server))
    assert registry.look_up("default", 1, ENDS, now=0.0) == SchemaText("AVRO", RECORD)
    assert registry.known("default").settled(1)
    asked = len(server.requests)
    assert registry.look_up("default", 1, ENDS, now=1.0) == SchemaText("AVRO", RECORD)
    later = started(store, RegistryOptions())
    assert later.known("default") == registry.known("default") and len(server.requests) == asked


def test_what_another_task_has_recorded_is_gone_by(server: FakeRegistry, store: MemoryStore) -> None:
    """Also while this one runs: the files are read before anybody is asked, whatever they decide."""
    registry = started(store, options(server))
    asked = len(server.requests)
    other = Pins(store, "default")
    other.add(9, UnknownId({P0: 7}))
    assert registry.look_up("default", 9, ENDS, now=0.0) == UnknownId({P0: 7})
    other.add(9, SchemaText("AVRO", "1"))
    assert registry.look_up("default", 9, ENDS, now=0.0) == SchemaText("AVRO", "1")
    assert registry.known("default").of(9, P0, 7) == UnknownId({P0: 7}) and len(server.requests) == asked
    assert registry.known("default").of(9, P0, 8) == SchemaText("AVRO", "1")


def test_a_definite_unknown_id_is_decided_when_its_time_is_over(server: FakeRegistry, store: MemoryStore) -> None:
    """For all that could be read by then; meanwhile the registry may come to know it."""
    registry = started(store, options(server, unknown_after_secs=60.0))
    assert registry.look_up("default", 9, ENDS, now=1_000.0) is None
    assert registry.look_up("default", 9, ENDS, now=1_059.0) is None
    assert registry.known("default").decisions == {}
    assert registry.look_up("default", 9, {P0: 130, P1: 50}, now=1_060.0) == UnknownId({P0: 129, P1: 49})
    assert Pins(store, "default").read(9).unknown == {P0: 129, P1: 49}
    assert registry.look_up("default", 8, ENDS, now=2_000.0) is None
    server.add("late", '"long"', number=8)
    assert registry.look_up("default", 8, ENDS, now=2_030.0) == SchemaText("AVRO", '"long"')
    assert registry.known("default").settled(8)


def test_a_registry_is_not_asked_in_every_passing(server: FakeRegistry, store: MemoryStore) -> None:
    """While an id waits, once a second."""
    registry = started(store, options(server, unknown_after_secs=60.0))
    before = server.paths.count("/schemas/ids/9")
    for tenth in range(31):
        assert registry.look_up("default", 9, ENDS, now=tenth / 10) is None
    assert server.paths.count("/schemas/ids/9") - before <= 4


def test_later_decisions_on_an_id_come_sooner_with_a_pause_that_grows(server: FakeRegistry, store: MemoryStore) -> None:
    """So one record after the other with four random bytes neither stops its partition nor fills the store."""
    registry = started(store, options(server, unknown_after_secs=60.0))
    now, end, waited = 0.0, 100, []
    for _ in range(8):
        since = now
        while registry.look_up("default", 9, {P0: end}, now=now) is None:
            now += 0.5
        waited.append(now - since)
        end += 1
    assert waited[0] == 60 and waited[1:] == sorted(waited[1:]) and waited[1] <= 2 and waited[-1] == 30
    again = started(store, options(server, unknown_after_secs=60.0))
    assert again.look_up("default", 9, {P0: 500}, now=0.0) is None
    assert again.look_up("default", 9, {P0: 500}, now=1.0) == UnknownId({P0: 499})


def test_a_late_registration_speaks_of_what_comes_after(server: FakeRegistry, store: MemoryStore) -> None:
    """What was decided stays decided."""
    registry = started(store, options(server, unknown_after_secs=0.0))
    assert registry.look_up("default", 9, ENDS, now=0.0) == UnknownId({P0: 99, P1: 49})
    server.add("late", '"long"', number=9)
    assert registry.look_up("default", 9, {P0: 101}, now=5.0) == SchemaText("AVRO", '"long"')
    known = registry.known("default")
    assert (known.of(9, P0, 99), known.of(9, P0, 100)) == (UnknownId({P0: 99, P1: 49}), known.text(9))


def test_with_stall_an_unknown_id_is_never_decided(server: FakeRegistry, store: MemoryStore) -> None:
    """It is told as an outage that says why, until somebody registers it."""
    registry = started(store, options(server, unknown_after_secs=0.0, unknown_schema_id="stall"))
    for now in (0.0, 10_000.0):
        with pytest.raises(RegistryUnreachable, match="no id 9, and with unknown_schema_id = stall"):
            registry.look_up("default", 9, ENDS, now=now)
    assert Pins(store, "default").ids() == []
    server.add("late", '"long"', number=9)
    assert registry.look_up("default", 9, ENDS, now=0.0) == SchemaText("AVRO", '"long"')


@pytest.mark.parametrize("schema_id", [2**31, 2**32 - 1])
def test_an_id_that_no_registry_can_give_is_unknown_at_once(store: MemoryStore, schema_id: int) -> None:
    """Nobody is asked: what some servers answer could not be told from an outage."""
    registry = Registry(RegistryOptions(("http://127.0.0.1:1",)), store)
    assert registry.look_up("default", schema_id, ENDS, now=0.0) == UnknownId({})
    assert registry.known("default").of(schema_id, P0, 7) == UnknownId({}) and Pins(store, "default").ids() == []


def test_a_start_records_nothing_of_a_registry_that_contradicts(server: FakeRegistry, store: MemoryStore) -> None:
    """What is new in it would stand in the way once the old content is back."""
    started(store, options(server, subjects=("orders-value",)))
    server.wipe(next_id=2)
    server.add("new", '"long"')
    server.add("orders-value", '"another"', number=1)
    with pytest.raises(InvariantBroken):
        started(store, options(server, subjects=("new", "orders-value")))
    assert Pins(store, "default").ids() == [1]


def test_trouble_decides_nothing_and_known_ids_go_on(server: FakeRegistry, store: MemoryStore) -> None:
    """However long it lasts."""
    registry = started(store, options(server, subjects=("orders-value",), unknown_after_secs=0.0))
    server.failure = Failure(503)
    for now in (0.0, 10_000.0):
        with pytest.raises(RegistryUnreachable, match="HTTP 503"):
            registry.look_up("default", 9, ENDS, now=now)
    assert registry.known("default").settled(1) and Pins(store, "default").ids() == [1]
    server.failure = None
    assert registry.look_up("default", 9, ENDS, now=10_001.0) == UnknownId({P0: 99, P1: 49})


def test_a_registry_that_has_lost_what_it_gave_knows_nothing(server: FakeRegistry, store: MemoryStore) -> None:
    """Wiped: what it does not know means nothing, and what it knows by now is not believed."""
    registry = started(store, options(server, subjects=("orders-value",), unknown_after_secs=0.0))
    server.wipe(next_id=20)
    with pytest.raises(RegistryUnreachable, match=r"no longer knows ids that it gave \(1\)"):
        registry.look_up("default", 9, ENDS, now=0.0)
    server.add("new", '"int"', number=9)
    with pytest.raises(RegistryUnreachable, match="no longer knows"):
        registry.look_up("default", 9, ENDS, now=0.0)
    server.add("orders-value", RECORD, number=1)
    assert registry.look_up("default", 9, ENDS, now=0.0) == SchemaText("AVRO", '"int"')


def test_an_empty_registry_knows_nothing_even_if_nothing_is_recorded(server: FakeRegistry, store: MemoryStore) -> None:
    """A wrong address must not make dead letters of a whole topic."""
    server.wipe()
    registry = started(store, options(server, unknown_after_secs=0.0))
    with pytest.raises(RegistryUnreachable, match="has no schemas at all"):
        registry.look_up("default", 9, ENDS, now=0.0)


@pytest.mark.parametrize("when", ["start", "start of another", "look up"])
def test_another_text_under_a_recorded_id_stops_with_a_hint(
    server: FakeRegistry, store: MemoryStore, when: str
) -> None:
    """Exit 70: wiped and filled anew, or another registry."""
    subjects = () if when == "start of another" else ("orders-value",)
    registry = started(store, options(server, subjects=("orders-value",)))
    server.wipe()
    server.add("orders-value", '"another"')
    with pytest.raises(InvariantBroken, match="another schema under id 1") as caught:
        if when == "look up":
            registry.look_up("default", 9, ENDS, now=0.0)
        else:
            started(store, options(server, subjects=subjects))
    assert caught.value.exit_code == 70 and "[schema_registry] name" in caught.value.hint
    assert Pins(store, "default").read(1).text == SchemaText("AVRO", RECORD)
    renamed = started(store, replace(options(server, subjects=("orders-value",)), name="second"))
    assert renamed.known("second").text(1) == SchemaText("AVRO", '"another"')
    assert renamed.known("default").text(1) == SchemaText("AVRO", RECORD), "an old configuration goes by the old ones"


def test_a_registry_that_is_filled_anew_while_nothing_is_missing_is_found(
    server: FakeRegistry, store: MemoryStore
) -> None:
    """By a look now and then; silence is none of its business."""
    registry = started(store, options(server, subjects=("orders-value",)))
    registry.verify()
    server.failure = Failure(503)
    registry.verify()
    server.failure = None
    server.wipe()
    registry.verify()
    server.add("orders-value", '"another"')
    with pytest.raises(InvariantBroken, match="another schema under id 1"):
        registry.verify()
    started(store, RegistryOptions()).verify()


def test_json_may_be_written_otherwise(server: FakeRegistry, store: MemoryStore) -> None:
    """A registry may give a schema back in another order, with other blanks; true is not 1 all the same."""
    server.add("a", '{"type": "record", "name": "R", "fields": [], "x": true}', number=1)
    started(store, options(server, subjects=("a",)))
    server.schemas[1]["schema"] = '{"fields":[],"name":"R","type":"record","x":true}'
    started(store, options(server, subjects=("a",)))
    server.schemas[1]["schema"] = '{"fields":[],"name":"R","type":"record","x":1}'
    with pytest.raises(InvariantBroken):
        started(store, options(server, subjects=("a",)))


def test_a_start_records_all_versions_of_the_subjects(server: FakeRegistry, store: MemoryStore) -> None:
    """And no others; one that is not there yet is no trouble."""
    server.add("orders-value", '"int"')
    server.add("others", '"long"')
    registry = started(store, options(server, subjects=("orders-value", "not-yet")))
    assert sorted(registry.known("default").decisions) == [1, 2]


def test_a_registry_that_is_down_at_the_start_stops_nothing_that_is_recorded(
    server: FakeRegistry, store: MemoryStore
) -> None:
    """Without anything recorded it does: nothing could be read."""
    server.failure = Failure(503)
    with pytest.raises(RegistryUnreachable):
        started(store, options(server))
    Pins(store, "default").add(1, SchemaText("AVRO", RECORD))
    assert started(store, options(server)).known("default").settled(1)


def test_where_nobody_can_be_asked_the_hint_says_what_to_set(server: FakeRegistry, store: MemoryStore) -> None:
    """No urls; or an id of a registry by another name than the settings have."""
    alone = started(store, RegistryOptions())
    with pytest.raises(RegistryUnreachable) as caught:
        alone.look_up("default", 9, ENDS, now=0.0)
    assert "urls" in caught.value.hint
    with pytest.raises(RegistryUnreachable, match="the registry old, which is asked no longer"):
        started(store, options(server)).look_up("old", 9, ENDS, now=0.0)


def test_a_schema_is_recorded_with_what_it_refers_to(server: FakeRegistry, store: MemoryStore) -> None:
    """A restart needs no registry for these either."""
    number = server.add("b", '"Order"', references=[{"name": "Order", "subject": "orders-value", "version": 1}])
    expected = SchemaText("AVRO", '"Order"', (("Order", SchemaText("AVRO", RECORD)),))
    assert started(store, options(server)).look_up("default", number, ENDS, now=0.0) == expected
    assert started(store, RegistryOptions()).known("default").text(number) == expected


def test_whoever_looks_up_an_id_waits_for_another_who_does(server: FakeRegistry, store: MemoryStore) -> None:
    """One request for one id; another id is not held up by it."""
    registry = started(store, options(server))
    second = server.add("b", '"long"')
    held = threading.Event()

    def hold(path: str) -> None:
        if path == "/schemas/ids/1":
            held.wait(5)

    server.on_request = hold
    begun = len(server.requests)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(registry.look_up, "default", 1, ENDS, now=0.0) for _ in range(3)]
        wait_for(lambda: len(server.requests) > begun)
        assert registry.look_up("default", second, ENDS, now=0.0) == SchemaText("AVRO", '"long"')
        held.set()
        assert {one.result() for one in waiting} == {SchemaText("AVRO", RECORD)}
    assert server.paths[begun:].count("/schemas/ids/1") <= 2, "once by itself, once as a voucher for the other"


def test_tasks_that_decide_at_once_go_by_the_same(server: FakeRegistry, store: MemoryStore) -> None:
    """One finds the id registered while the other has just decided that it is not: the first record counts."""
    waits = started(store, options(server, unknown_after_secs=0.0))
    server.add("late", '"long"', number=9)
    asked = threading.Event()

    def decided_meanwhile(path: str) -> None:
        if path == "/schemas/ids/9" and not asked.is_set():
            asked.set()
            Pins(store, "default").add(9, UnknownId({P0: 70}))

    server.on_request = decided_meanwhile
    assert waits.look_up("default", 9, ENDS, now=0.0) == SchemaText("AVRO", '"long"')
    assert waits.known("default").of(9, P0, 70) == UnknownId({P0: 70})


def test_two_servers_with_different_texts_are_found_out(server: FakeRegistry, store: MemoryStore) -> None:
    """Somebody recorded another text between the question and the record."""
    registry = started(store, options(server))
    server.on_request = lambda path: Pins(store, "default").add(1, SchemaText("AVRO", '"other"')) and None
    with pytest.raises(InvariantBroken, match="different schemas under id 1"):
        registry.look_up("default", 1, ENDS, now=0.0)


def test_a_recorded_text_that_an_older_version_could_not_read_is_taken_up_again(store: MemoryStore) -> None:
    """The recorded text decides, and nobody is asked for another one: of what it refers to it has all. One that this
    version cannot read either says why, in its compiler's words."""
    imports = 'syntax = "proto3"; import "google/type/date.proto"; import "own.proto"; '
    text = SchemaText("PROTOBUF", imports + "message A { google.type.Date day = 1; Own own = 2; }")
    alone = SchemaText("PROTOBUF", text.text.replace('import "own.proto";', "").replace("Own own = 2;", ""))
    whole = replace(text, references=(("own.proto", SchemaText("PROTOBUF", 'syntax = "proto3"; message Own {}')),))
    pins = Pins(store, "default")
    for number, one in enumerate((alone, whole, text), start=1):
        pins.add(number, one)
    before = {number: pins.read(number) for number in pins.ids()}
    known = Registry(RegistryOptions(), store).known("default")
    for number in (1, 2):
        found = known.text(number)
        assert found is not None and registered(found).fields == fields("day DATE")
    lacking = known.text(3)
    assert lacking is not None and "own.proto: File not found" in lacking.why
    with pytest.raises(ConfigError, match="File not found"):
        registered(lacking)
    assert {number: pins.read(number) for number in pins.ids()} == before, "nothing is recorded anew"


def test_a_schema_that_its_compiler_refuses_is_recorded_with_what_it_refers_to(
    server: FakeRegistry, store: MemoryStore
) -> None:
    """So that a later version has all of it, whatever the registry says by then."""
    server.add("own.proto", 'syntax = "proto3"; message Own {}', "PROTOBUF")
    text = 'syntax = "proto3"; import "own.proto"; import "not/known.proto"; message A { Own own = 1; }'
    reference = {"name": "own.proto", "subject": "own.proto", "version": 1}
    number = server.add("orders-value", text, "PROTOBUF", [reference])
    found = started(store, options(server)).look_up("default", number, ENDS, now=0.0)
    assert isinstance(found, SchemaText) and "not/known.proto" in found.why
    recorded = Pins(store, "default").read(number).text
    assert recorded is not None and recorded.text == text and [name for name, _ in recorded.references] == ["own.proto"]
