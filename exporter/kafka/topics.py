"""What the broker says of the topics: identity, partitions, first and end offsets, who has which partition.

Asks through the admin client, which never creates a topic by asking. Answers are either
complete or an error; an offset that cannot be read is never taken for one that is not there.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Protocol

from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaTopicPartition
from kafka.admin import ConfigResource, NewTopic, OffsetSpec
from kafka.errors import (
    BrokerResponseError,
    GroupAuthorizationFailedError,
    KafkaError,
    RetriableError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from exporter.errors import BrokerSilent, ConfigError
from exporter.kafka.login import knock, probe_login
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.selection import Topics

ANSWER_TIMEOUT_MS = 10_000
EXPORTER = "exporter-"
"""How the client ids of tasks begin."""


@dataclass(frozen=True)
class GroupMember:
    """A member of a consumer group. partitions: what it is assigned; none while the group rebalances."""

    id: str
    client: str
    host: str
    partitions: frozenset[TopicPartition]

    @property
    def is_exporter(self) -> bool:
        return self.client.startswith(EXPORTER)

    def __str__(self) -> str:
        return f"{self.client} at {self.host.lstrip('/')}"


class Offsets(Protocol):
    """Who knows the offsets of partitions, each by the topic partition; TopicReader."""

    def first_offsets(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]: ...

    def end_offsets(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]: ...

    def offsets_at(self, tps: Collection[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]: ...


@dataclass(frozen=True)
class FirstPosition:
    """Where a topic begins that is new to the tables. at: earliest, latest, or milliseconds since 1970 UTC."""

    at: Literal["earliest", "latest"] | int = "earliest"

    def offsets(self, topics: Offsets, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset to be exported of each partition. Raises BrokerSilent."""
        if self.at == "earliest":
            return topics.first_offsets(tps)
        if self.at == "latest":
            return topics.end_offsets(tps)
        return topics.offsets_at(tps, self.at)


EARLIEST = FirstPosition()


def partitions_of(identities: Mapping[str, TopicIdentity]) -> list[TopicPartition]:
    """Every partition of the topics, in order."""
    return [TopicPartition(topic, p) for topic, identity in sorted(identities.items()) for p in identity.partitions]


class TopicReader:
    """Metadata of the topics that are exported. Not thread-safe: used by the loop only."""

    def __init__(self, client_options: Mapping[str, Any], topics: Topics, isolation: str) -> None:
        """client_options: keywords of kafka-python's clients (bootstrap_servers and security).

        Raises BrokerSilent, and what probe_login raises.
        """
        self.topics = topics
        self.client = client_options
        self.greeting = probe_login(client_options)
        if self.greeting is None:
            knock(client_options["bootstrap_servers"])
        self._isolation = isolation
        try:
            self._admin = KafkaAdminClient(**client_options, request_timeout_ms=ANSWER_TIMEOUT_MS)
        except KafkaError as error:
            raise BrokerSilent(
                f"no broker answers at {client_options['bootstrap_servers']}: {error}",
                "check `brokers` and [kafka_client]; the log lines above tell why each connection failed",
            ) from error

    def cluster_id(self) -> str:
        return str(self._ask(self._admin.describe_cluster).get("cluster_id", ""))

    def identities(self) -> dict[str, TopicIdentity]:
        """Every topic that is to be exported and is there now. Raises BrokerSilent."""
        names = list(self.topics.names) or None
        described = self._ask(self._admin.describe_topics, names)
        entries = {item["name"]: item for item in described if not item.get("error_code")}
        wanted = {
            name: item
            for name, item in entries.items()
            if self.topics.match(name) and (name in self.topics.names or not item.get("is_internal"))
        }
        return self._identities(wanted)

    def identities_of(self, topics: Collection[str]) -> dict[str, TopicIdentity]:
        """These topics. Raises BrokerSilent also if one of them is not there (now: it may be on its way in or out)."""
        described = self._ask(self._admin.describe_topics, sorted(topics)) if topics else []
        entries = {item["name"]: item for item in described if not item.get("error_code")}
        if missing := sorted(set(topics) - entries.keys()):
            raise BrokerSilent(f"topic {missing[0]} is unknown now")
        return self._identities(entries)

    def require(self) -> dict[str, TopicIdentity]:
        """Like identities(); raises ConfigError if a named topic does not exist, while a pattern may match none yet."""
        found = self.identities()
        if missing := sorted(set(self.topics.names) - found.keys()):
            described = self._ask(self._admin.describe_topics, missing[:1])
            if any(item.get("error_code") == TopicAuthorizationFailedError.errno for item in described):
                hint = "an administrator of the brokers grants it: kafka-acls.sh --add --operation Read --topic ..."
                raise ConfigError(f"topic {missing[0]} may not be seen by this user", hint)
            raise ConfigError(f"topic {missing[0]} does not exist", self._nearest(missing[0]))
        return found

    def _nearest(self, missing: str) -> str:
        """A hint: the name of a topic that is there and may have been meant."""
        there = {str(item["name"]) for item in self._ask(self._admin.describe_topics) if not item.get("error_code")}
        near = difflib.get_close_matches(missing, sorted(there), n=1)
        return (f"did you mean {near[0]}? Else " if near else "") + "create it first, or correct `topics`"

    def _identities(self, entries: Mapping[str, Any]) -> dict[str, TopicIdentity]:
        if not entries:
            return {}
        cluster_id = self.cluster_id()
        return {
            name: TopicIdentity(
                cluster_id,
                str(item.get("topic_id", "")),
                tuple(sorted(partition["partition_index"] for partition in item["partitions"])),
            )
            for name, item in sorted(entries.items())
        }

    def first_offsets(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of the first record still in the log, per partition."""
        return self._offsets(dict.fromkeys(tps, OffsetSpec.EARLIEST), "read_uncommitted")

    def end_offsets(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last readable record: last stable offset or high watermark, by isolation."""
        return self._offsets(dict.fromkeys(tps, OffsetSpec.LATEST), self._isolation)

    def high_watermarks(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last replicated record, whatever the isolation."""
        return self._offsets(dict.fromkeys(tps, OffsetSpec.LATEST), "read_uncommitted")

    def offset_bytes(self, tps: Collection[TopicPartition]) -> float:
        """Bytes per offset that the brokers keep, compressed as they are; 0 if they do not say (the right to describe
        the cluster is not among those that a task needs).
        """
        partitions: dict[str, list[int]] = defaultdict(list)
        for tp in tps:
            partitions[tp.topic].append(tp.partition)
        kept: dict[TopicPartition, int] = {}
        try:
            answers = self._ask(self._admin.describe_log_dirs, partitions)
            first, last = self.first_offsets(tps), self.high_watermarks(tps)
        except BrokerSilent:
            return 0.0
        for folder in chain.from_iterable(answer["log_dirs"] for answer in answers):
            for topic in folder["topics"]:
                for one in topic["partitions"]:
                    tp = TopicPartition(topic["name"], one["partition_index"])
                    kept[tp] = max(one["partition_size"], kept.get(tp, 0))
        offsets = sum(last[tp] - first[tp] for tp in kept if tp in first and tp in last)
        return sum(kept.values()) / offsets if offsets else 0.0

    def offsets_at(self, tps: Collection[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """The offset of the first record at or after `timestamp_ms`; the end where there is none."""
        found = self._offsets(dict.fromkeys(tps, timestamp_ms), "read_uncommitted")
        missing = [tp for tp in tps if found.get(tp, -1) < 0]
        return {**found, **(self.end_offsets(missing) if missing else {})}

    def members(self, group: str) -> tuple[GroupMember, ...]:
        """Who is in a consumer group, also while it is rebalancing."""
        return self._members(self._ask(self._admin.describe_groups, [group]).get(group, {}))

    def assignments(self, group: str) -> dict[str, frozenset[TopicPartition]]:
        """Member id -> partitions, of a consumer group at rest; empty while it is rebalancing."""
        described = self._ask(self._admin.describe_groups, [group]).get(group, {})
        if described.get("group_state") != "Stable":
            return {}
        return {member.id: member.partitions for member in self._members(described)}

    @staticmethod
    def _members(described: Mapping[str, Any]) -> tuple[GroupMember, ...]:
        return tuple(
            GroupMember(one["member_id"], one["client_id"], one["client_host"], _assigned(one["member_assignment"]))
            for one in described.get("members") or ()
        )

    def missing_rights(self, group: str) -> list[str]:
        """What the brokers say this user may not do and a task needs; nothing where they say nothing of rights."""
        if not (topics := sorted(self.identities())):
            return []
        found = []
        for item in self._ask(self._admin.describe_topics, topics):
            found += [f"{right} on topic {item['name']}" for right in _lacking(item, "READ", "DESCRIBE")]
        return [*found, *self.lacking_on_group(group)]

    def lacking_on_group(self, group: str) -> list[str]:
        """What of it the brokers say this user may not do with a consumer group."""
        try:
            described = self._ask(self._admin.describe_groups, [group]).get(group, {})
        except BrokerSilent as error:
            may_not = isinstance(error.__cause__, GroupAuthorizationFailedError)
            return [f"READ on group {group}"] if may_not else []
        return [f"{right} on group {group}" for right in _lacking(described, "READ")]

    def lacking(self, topic: str, *rights: str) -> list[str]:
        """Which of the rights on a topic that is there the brokers say this user has not. Raises BrokerSilent."""
        return _lacking(self._ask(self._admin.describe_topics, [topic])[0], *rights)

    def replication(self, topic: str) -> int:
        """How many replicas a topic has. Raises BrokerSilent."""
        return len(self._ask(self._admin.describe_topics, [topic])[0]["partitions"][0]["replica_nodes"])

    def configuration(self, topic: str) -> dict[str, str]:
        """What a topic is told, defaults too; nothing where this user may not see it. Raises BrokerSilent."""
        try:
            asked = [ConfigResource("topic", topic)]
            told = self._ask(self._admin.describe_configs, asked, config_filter="all")["topic"][topic]
        except BrokerSilent as error:
            if isinstance(error.__cause__, TopicAuthorizationFailedError):
                return {}
            raise
        return {key: str(one["value"]) for key, one in told.items()}

    def make(self, topic: str, partitions: int, replication: int, told: Mapping[str, str] | None = None) -> None:
        """Make a topic, unless somebody else has just made it. replication: -1 for what the brokers have by default.
        told: configuration of its own.

        Raises ConfigError for what they refuse, BrokerSilent.
        """
        try:
            self._ask(self._admin.create_topics, [NewTopic(topic, partitions, replication, topic_configs=told)])
        except BrokerSilent as error:
            if isinstance(error.__cause__, TopicAlreadyExistsError):
                return
            if isinstance(error.__cause__, BrokerResponseError) and not isinstance(error.__cause__, RetriableError):
                hint = "make it yourself: a topic that is there is left as it is"
                raise ConfigError(f"topic {topic} cannot be made: {error.__cause__}", hint) from error
            raise

    def close(self) -> None:
        self._admin.close()

    def _offsets(self, specs: Mapping[TopicPartition, Any], isolation: str) -> dict[TopicPartition, int]:
        asked = {KafkaTopicPartition(tp.topic, tp.partition): spec for tp, spec in specs.items()}
        if not asked:
            return {}
        answer = self._ask(self._admin.list_partition_offsets, asked, isolation_level=isolation)
        return {TopicPartition(tp.topic, tp.partition): int(info.offset) for tp, info in answer.items()}

    def _ask(self, call: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except UnknownTopicOrPartitionError as error:
            raise BrokerSilent(f"a topic or one of its partitions is unknown now: {error}") from error
        except (KafkaError, OSError) as error:
            raise BrokerSilent(f"the broker did not answer: {type(error).__name__}: {error}") from error


def _assigned(assignment: Any) -> frozenset[TopicPartition]:
    """The partitions in a member's assignment; none before its first one, nor of a member that is no consumer."""
    topics = assignment["assigned_partitions"] if isinstance(assignment, Mapping) else ()
    return frozenset(TopicPartition(one["topic"], partition) for one in topics for partition in one["partitions"])


def _lacking(described: Mapping[str, Any], *needed: str) -> list[str]:
    """Of the needed rights those that a description does not list; none if it lists no rights at all."""
    granted = described.get("authorized_operations")
    return [right for right in needed if isinstance(granted, list) and granted and right not in granted]
