"""Messages of versions over a real broker and to a real web server, beside tasks of this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from exporter.announce import announcing as announcing_module
from exporter.announce.kept import GroupPointers
from exporter.announce.pointers import Pointer
from exporter.kafka import sender
from exporter.kafka.group_texts import GroupTexts
from exporter.local.broker import create_topic
from exporter.operate.check.check import check_broker
from offsets.selection import Topics
from tests.support.announcing import announced, hook, read, sent, versions_with_rows
from tests.support.lakes import Exports, messages, mixed, wait_until, wrong_places
from tests.support.processes import running
from tests.support.services import administered, fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def test_pointers_stand_on_as_many_partitions_as_they_need(kafka: str, topic: Callable[..., str]) -> None:
    """They come back whole, also where there are fewer later, and where a topic has come that is before the others."""
    second = topic(3)
    group, client = fresh_name("group"), {"bootstrap_servers": [kafka]}
    many = {f"event_type_{number:03d}": Pointer(number, number + 7) for number in range(300)}
    with closing(GroupPointers(client, group, Topics((second,)))) as kept:
        assert kept.load() is None
        assert kept.save(many) == ()
        assert kept.load() == many
        assert len(kept.save({f"event_type_{number:04d}": Pointer(number, 9) for number in range(2_000)})) > 1_000
        assert kept.save({"order": Pointer(3, 5)}) == ()
        assert kept.load() == {"order": Pointer(3, 5)}
    create_topic(kafka, first := f"a-{second}", 1)
    with closing(GroupPointers(client, group, Topics((first, second)))) as kept:
        assert kept.load() == {"order": Pointer(3, 5)}
        assert kept.save({"order": Pointer(4, 4)}) == ()
        assert kept.load() == {"order": Pointer(4, 4)}
        with closing(GroupTexts(client, group)) as texts:
            assert sorted(filter(None, texts.read().values())) == ['{"order":4}']


def test_a_record_that_is_too_large_keeps_no_other_from_its_topic(kafka: str, topic: Callable[..., str]) -> None:
    """It is told as what it is, and so is a topic that is not there."""
    name = topic(2)
    with closing(sender.Sender({"bootstrap_servers": [kafka]}, name)) as to:
        failed = to.send({"a": b"1", "large": b"x" * (2 << 20), "z": b"2"})
        assert [*failed] == ["large"]
        assert "MessageSizeTooLarge" in failed["large"]
        assert to.send({"a": b"3"}) == {}
    found = [one.key() + one.value() for one in messages(kafka, name)]
    assert sorted(found) == [b"a1", b"a3", b"z2"]


def test_every_version_is_told_to_both_and_a_lost_topic_holds_up_nothing(
    kafka: str, topic: Callable[..., str], exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run with an end goes on where the last one stood. The topic is deleted and made anew in between."""
    monkeypatch.setattr(announcing_module, "LOOK_SECS", 0.1)
    monkeypatch.setattr(sender, "BLOCK_MS", 1_000)
    events, bodies = topic(3), list[bytes]()
    with hook(bodies) as url:
        e = exports(2, roll_records_max=20)
        e = e.with_(events_topic=events, events_webhook=url)
        assert [one.level for one in check_broker(e.settings()) if one.what == "events topic"] == ["ok"]
        e.send({0: mixed(60), 1: mixed(60, 100)})
        with running(e, "--until-caught-up") as task:
            assert task.wait() == 0, task.text
        e.send({0: mixed(60, 200), 1: mixed(60, 300)})
        with announced(e, spark) as service:
            service.run()
        expected = versions_with_rows(e)
        for told in (sent(e, events), bodies):
            consumer = read(told)
            assert (consumer.seen, consumer.missed, consumer.doubled) == (expected, [], 0)
        first = next(json.loads(body) for body in bodies if json.loads(body)["table"] == "order")
        assert (first["after"], first["app"], first["days"][0]) == (-1, e.app, "2026-01-27")
        assert sum(json.loads(body)["rows"] for body in bodies) == 240

        with administered(kafka) as admin:
            admin.delete_topics([events])
        wait_until(lambda: [one.level for one in check_broker(e.settings()) if one.what == "events topic"] == ["error"],
                   60, "the topic is gone")  # fmt: skip
        e.send({0: mixed(60, 400)})
        with announced(e, spark) as service:
            service.run()
            wait_until(lambda: service._watch.sinks()["topic"].error, 60, "it is told")
            assert wrong_places(e) == {}
            create_topic(kafka, events, 2)
            wait_until(lambda: not service._watch.sinks()["topic"].error, 60, "it goes again")
        assert read(bodies).seen == versions_with_rows(e)
        late = read(sent(e, events))
    new = {table: versions[len(expected[table]) :] for table, versions in versions_with_rows(e).items()}
    assert (late.seen, late.missed) == ({table: versions for table, versions in new.items() if versions}, [])
