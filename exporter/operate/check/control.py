"""The control topic: is it there, or made, with one partition that forgets, and may this user use it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

from exporter.errors import BrokerSilent, ConfigError
from exporter.finding import Finding
from exporter.kafka.options import kafka_python_options
from exporter.kafka.topics import TopicReader
from exporter.settings.model import Settings
from offsets.selection import Topics

WHAT = "control topic"
PARTITIONS = 1
CONFIGURATION = {"cleanup.policy": "delete", "retention.ms": "3600000"}
"""What it is made with: rounds last seconds, so an hour shows all that somebody may want to look at."""
MESSAGE_BYTES_MIN = 256 << 10
"""An offer may take 200 kB, an outcome of many of them less."""
MADE_SECS_MAX = 30.0
"""How long it may take to be there once it was made."""


def check_control(settings: Settings, exported: TopicReader, create: bool) -> Iterator[Finding]:
    """Nothing without a control_topic. exported: the topics, one of which says how many replicas it gets.

    Raises BrokerSilent, ConfigError.
    """
    name = settings.control_topic
    if not name:
        if create:
            yield Finding(WHAT, "error", "there is no name for it", "set `control_topic`")
        return
    with closing(TopicReader(kafka_python_options(settings), Topics((name,)), settings.isolation)) as reader:
        if create and not reader.identities():
            _make(reader, name, exported)
        try:
            found = reader.require()[name]
        except ConfigError as error:  # not there, or not to be seen
            yield Finding(WHAT, "error", error.message, "exporter check --create-control makes it, if it is not there")
            return
        faults = [*_faults(reader, name, len(found.partitions))]
        yield from faults
        if not faults:
            yield Finding(WHAT, "ok", f"{name}, id {found.topic_id}")


def _make(reader: TopicReader, name: str, exported: TopicReader) -> None:
    """Returns when the broker knows it. Raises BrokerSilent, ConfigError."""
    model = next(iter(exported.identities()), None)
    reader.make(name, PARTITIONS, exported.replication(model) if model else -1, CONFIGURATION)
    deadline = time.monotonic() + MADE_SECS_MAX
    while not reader.identities():
        if time.monotonic() > deadline:
            raise BrokerSilent(f"topic {name} was made, and is not there yet")
        time.sleep(0.1)  # pace of the polling, bounded by the deadline


def _faults(reader: TopicReader, name: str, partitions: int) -> Iterator[Finding]:
    anew = "delete it, and let `exporter check --create-control` make it anew: tasks commit by themselves meanwhile"
    if partitions != PARTITIONS:
        yield Finding(WHAT, "warn", f"{name} has {partitions} partitions: only the first one is used", anew)
    told = reader.configuration(name)
    if "compact" in (policy := told.get("cleanup.policy", "")):
        yield Finding(WHAT, "error", f"{name} has cleanup.policy {policy}, which takes no message without a key", anew)
    if (size := int(told.get("max.message.bytes", MESSAGE_BYTES_MIN))) < MESSAGE_BYTES_MIN:
        says = f"{name} takes messages of {size:,} bytes at most: larger offers are lost, and committed by their tasks"
        yield Finding(WHAT, "warn", says, f"raise max.message.bytes to {MESSAGE_BYTES_MIN:,} or more")
    for right in reader.lacking(name, "READ", "WRITE", "DESCRIBE"):
        hint = "an administrator of the brokers grants it (kafka-acls.sh --add)"
        yield Finding("rights", "error", f"this user has not the right to {right} on topic {name}", hint)
