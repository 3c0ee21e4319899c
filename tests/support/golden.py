"""Lakes that earlier versions wrote, in archives of tests/golden, as if the topics that they know were those of now."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from kafka import TopicPartition
from kafka.admin import OffsetSpec

from exporter.errors import ConfigError
from exporter.kafka.options import kafka_python_options
from exporter.kafka.topics import TopicReader
from exporter.local.broker import create_topic
from exporter.spark.archives import extract
from tests.support.lakes import Export, wait_until
from tests.support.places import Folder
from tests.support.services import PRODUCE_SECS_MAX, Record, administered, produce

GOLDEN = Path(__file__).parents[1] / "golden"
CUSTOMERS = """[derive.customers]
kind = "mirror"
source = "change"
keys = ["id"]
order = ["when"]
op = "op"
patches = ["P"]
fields = "changed"
"""
"""The settings of a mirror in coordinated_and_mirrored."""
Sent = dict[tuple[str, int], list[Record]]


def sent_before(archive: str, topic: str = "") -> Sent:
    """(topic, partition) -> the records of then, in the order of their offsets. topic: where lines name none."""
    with tarfile.open(GOLDEN / archive) as opened:
        lines = opened.extractfile("records.jsonl")
        assert lines is not None
        known = [json.loads(line) for line in lines.read().decode().splitlines()]
    found: Sent = {}
    for one in known:
        value = None if one["value"] is None else one["value"].encode()
        record = Record(one["key"].encode(), value, timestamp_ms=one["timestamp_ms"])
        found.setdefault((one.get("topic", topic), one.get("partition", 0)), []).append(record)
    return found


def send_again(kafka: str, sent: Sent) -> None:
    """The topics as they were, with their records at the same offsets; made once by whichever test process comes first.

    AssertionError if the records of another process are not there in time.
    """
    for topic in {topic for topic, _ in sent}:
        partitions = {partition: rows for (of, partition), rows in sent.items() if of == topic}
        try:
            create_topic(kafka, topic, len(partitions), None)
        except ConfigError:  # it exists; tests may have added to it
            ends = {TopicPartition(topic, partition): len(rows) for partition, rows in partitions.items()}
            wait_until(partial(_there, kafka, ends), PRODUCE_SECS_MAX, f"the records of {topic} are there")
        else:
            produce(kafka, topic, partitions)


def _there(kafka: str, ends: Mapping[TopicPartition, int]) -> bool:
    with administered(kafka) as admin:
        found = admin.list_partition_offsets(dict.fromkeys(ends, OffsetSpec.LATEST))
    return all(found[tp].offset >= end for tp, end in ends.items())


def unpack(e: Export, archive: str, folder: str, ids: Mapping[str, str], cluster_id: str) -> None:
    """Put a lake of an archive to where an export has its tables.

    ids: topic -> the id that it had, cluster_id: of the broker of then; in the logs the present ones take their place.
    """
    with tarfile.open(GOLDEN / archive) as opened:
        extract(opened, e.root)
    settings = e.settings()
    reader = TopicReader(kafka_python_options(settings), settings.selection, settings.isolation)
    now = {cluster_id: reader.cluster_id()}
    now |= {ids[topic]: str(identity.topic_id) for topic, identity in reader.identities().items()}
    reader.close()
    unpacked = Folder(e.root / folder)
    for file in unpacked.files():
        body = unpacked.read(file)
        for old, new in now.items() if file.path.endswith((".json", ".crc")) else ():
            body = body.replace(old.encode(), new.encode())
        e.place.write(file.path, body)
