"""The topic of events: is it there, does it keep them all, may this user send to it and keep how far that went."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from exporter.finding import Finding
from exporter.kafka.options import kafka_python_options
from exporter.kafka.topics import TopicReader
from exporter.settings.meaning import event_groups
from exporter.settings.model import Settings
from offsets.selection import Topics

WHAT = "events topic"
RETENTION_MS_MIN = 24 * 3600 * 1000
"""A consumer that is down for a night or a day should find what it has missed."""
_GRANTED = "an administrator of the brokers grants it (kafka-acls.sh --add)"


def check_events(settings: Settings) -> Iterator[Finding]:
    """Nothing where nobody is told. Raises BrokerSilent, ConfigError."""
    if not (groups := event_groups(settings)):
        return
    topics = Topics((settings.events_topic,)) if settings.events_topic else settings.selection
    with closing(TopicReader(kafka_python_options(settings), topics, settings.isolation)) as reader:
        for group in groups.values():
            for right in reader.lacking_on_group(group):
                yield Finding("rights", "error", f"this user has not the right to {right}", _GRANTED)
        if settings.events_topic:
            yield from _of_topic(settings.events_topic, reader)


def _of_topic(name: str, reader: TopicReader) -> Iterator[Finding]:
    found = reader.identities().get(name)
    if found is None:
        hint = "make it, with `kafka-topics.sh --create`: no task does, and versions wait until it is there"
        yield Finding(WHAT, "error", f"there is no topic {name}", hint)
        return
    yield Finding(WHAT, "ok", f"{name}, {len(found.partitions)} partitions, id {found.topic_id}")
    told = reader.configuration(name)
    if "compact" in (policy := told.get("cleanup.policy", "")):
        says = f"{name} has cleanup.policy {policy}: of each table only the newest message stays"
        yield Finding(WHAT, "warn", says, "set cleanup.policy=delete")
    if 0 <= (kept := int(told.get("retention.ms", -1))) < RETENTION_MS_MIN:
        says = f"{name} forgets messages after {kept / 3_600_000:.1f} hours"
        yield Finding(WHAT, "warn", says, "raise retention.ms beyond what its consumers may be down for")
    for right in reader.lacking(name, "WRITE", "DESCRIBE"):
        yield Finding("rights", "error", f"this user has not the right to {right}", _GRANTED)
