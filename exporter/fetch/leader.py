"""A connection to the broker that leads a partition: kafka-python finds it and logs in, then its socket is ours.

kafka-python's own loop receives 4 KiB at a time; here an answer comes whole, by large receives into one buffer.
"""

from __future__ import annotations

import io
import struct
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from offsets.ranges import TopicPartition

FETCH_BYTES = 4 << 20
"""That are asked for at once; the broker sends a longer batch whole."""
WAIT_MS = 500
"""How long a broker may wait for records."""
IDLE_MAX = 64
"""Connections of a worker that wait."""
_SIZE = struct.Struct(">i")
_COMMITTED = "read_committed"
_HEAD_BYTES = 64
"""Of an answer, that its head is within."""


class Answer(NamedTuple):
    """What a broker says of a partition.

    error: as Kafka numbers it; 0 for none. diverged: the offset from which on its log is not what was read; -1 for
    none. ends: the last stable offset, or the high watermark where aborted records are seen. aborted: (producer, first
    offset). replica: the broker that is to be read instead; -1 for none.
    """

    error: int
    diverged: int
    ends: int
    aborted: list[tuple[int, int]]
    replica: int
    records: bytes


class PartitionLeader:
    """One connection that is logged in, for one partition at a time. Not to be shared by threads.

    client: what it has logged in with. node: the broker. leads: false for a replica that reads for it. topic_id: of the
    topic, as long as it is not made again.
    """

    def __init__(
        self, client: Mapping[str, Any], tp: TopicPartition, isolation: str, node: int | None, secs: float
    ) -> None:
        """client: keywords of kafka-python's clients. node: the broker to read, if not the leader. secs: to log in.

        Raises KafkaError.
        """
        from kafka.net.manager import KafkaConnectionManager
        from kafka.net.selector import NetworkSelector

        self.client = client
        self._net = NetworkSelector()
        self._manager = KafkaConnectionManager(self._net, **client)
        self._rack = client.get("client_rack", "")
        self._asked = 0
        try:
            self._log_in(tp, node, time.monotonic() + secs)
        except BaseException:
            self.close()
            raise
        self.turn(tp, isolation)

    def _log_in(self, tp: TopicPartition, node: int | None, deadline: float) -> None:
        from kafka.errors import LeaderNotAvailableError
        from kafka.protocol.consumer import FetchRequest

        cluster = self._manager.cluster
        cluster.config["allow_auto_create_topics"] = False  # a topic that is gone is not to be made by asking
        cluster.set_topics([tp.topic])
        self._manager.bootstrap(timeout_ms=_millis(deadline))
        found = self._leader_of(tp) if node is None else node
        if found is None or found < 0:
            raise LeaderNotAvailableError(f"{tp} has no leader now")
        self.node = found
        connection = self._manager.get_connection(self.node, timeout_ms=_millis(deadline))
        self._net.run(self._manager.wait_for, connection.init_future, _millis(deadline))
        self._version = connection.broker_version_data.api_version(FetchRequest)
        self._client_id = connection.config["client_id"]
        self._socket = connection.transport._sock  # from here on nobody runs the loop that reads it
        self._socket.setblocking(True)

    def _leader_of(self, tp: TopicPartition) -> int | None:
        """As it was at the login."""
        from kafka import TopicPartition as KafkaTopicPartition

        found: int | None = self._manager.cluster.leader_for_partition(KafkaTopicPartition(*tp))
        return found

    def serves(self, tp: TopicPartition, node: int | None) -> bool:
        """Whether the login would lead here. node: as __init__ has it."""
        led = self._leader_of(tp)
        return led is not None and self.node == (led if node is None else node)

    def turn(self, tp: TopicPartition, isolation: str) -> None:
        """To another partition of the same topic. Nothing may be on its way."""
        from kafka import TopicPartition as KafkaTopicPartition

        cluster = self._manager.cluster
        self.tp, self._committed = tp, isolation == _COMMITTED
        self.leads = self._leader_of(tp) == self.node
        self.topic_id = cluster.topic_id(tp.topic)
        self._epoch = cluster.leader_epoch_for_partition(KafkaTopicPartition(*tp))

    def ask(self, offset: int, epoch: int) -> None:
        """Send a request for what stands at an offset and behind it. Raises OSError.

        epoch: of the leader that wrote what was read last, -1 if nothing was: the broker tells if its log is another.
        """
        from kafka.protocol.consumer import FetchRequest

        topic = FetchRequest.FetchTopic
        self._asked += 1
        part = topic.FetchPartition(
            partition=self.tp.partition, current_leader_epoch=-1 if self._epoch is None else self._epoch,
            fetch_offset=offset, last_fetched_epoch=epoch, partition_max_bytes=FETCH_BYTES,
        )  # fmt: skip
        request = FetchRequest[self._version](
            max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES, isolation_level=int(self._committed),
            session_id=0, session_epoch=-1, topics=[topic(topic=self.tp.topic, topic_id=self.topic_id,
            partitions=[part])], forgotten_topics_data=[], rack_id=self._rack,
        )  # fmt: skip
        request.with_header(correlation_id=self._asked, client_id=self._client_id)
        self._socket.sendall(request.encode(framed=True, header=True))

    def answer(self, secs: float) -> Answer:
        """What comes next. secs: how long nothing may come. Raises OSError, TimeoutError among them."""
        from kafka.protocol.consumer import FetchResponse

        self._socket.settimeout(secs)
        (size,) = _SIZE.unpack(self._received(_SIZE.size))
        whole, response = memoryview(self._received(size)), FetchResponse[self._version]
        head = io.BytesIO(bytes(whole[:_HEAD_BYTES]))
        if response.parse_header(head).correlation_id != self._asked:
            raise ConnectionResetError("an answer to another question has come")
        told = response.decode(whole[head.tell() :])
        if told.error_code:
            return Answer(told.error_code, -1, -1, [], -1, b"")
        (part,) = (one for topic in told.responses for one in topic.partitions)
        aborted = [(one.producer_id, one.first_offset) for one in part.aborted_transactions or ()]
        ends = part.last_stable_offset if self._committed else part.high_watermark
        diverged = -1 if part.diverging_epoch is None else part.diverging_epoch.end_offset
        return Answer(part.error_code, diverged, ends, aborted, part.preferred_read_replica, part.records or b"")

    def _received(self, size: int) -> bytearray:
        whole = bytearray(size)
        view, got = memoryview(whole), 0
        while got < size:
            count = self._socket.recv_into(view[got:])
            if not count:
                raise ConnectionResetError("the broker has hung up")
            got += count
        return whole

    def close(self) -> None:
        self._manager.close()
        self._net.close()


class Idle:
    """Connections that wait for the next range of a partition of their topic: a worker lives longer than a round.

    Whether one still leads there, and is still good, shows when it is asked.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], PartitionLeader] = {}

    def keep(self, one: PartitionLeader) -> None:
        """One for each topic and broker, the later one; where there are too many, the one that has waited longest goes.
        """
        at = (one.tp.topic, one.node)
        gone = [self._held.pop(at)] if at in self._held else []
        self._held[at] = one
        if len(self._held) > IDLE_MAX:
            gone.append(self._held.pop(next(iter(self._held))))
        for each in gone:
            each.close()

    def taken(
        self, client: Mapping[str, Any], tp: TopicPartition, isolation: str, node: int | None
    ) -> PartitionLeader | None:
        """One that has logged in with the same, for what PartitionLeader takes; it is kept no longer."""
        for at, one in self._held.items():
            if at[0] == tp.topic and one.client == client and one.serves(tp, node):
                del self._held[at]
                one.turn(tp, isolation)
                return one
        return None


def _millis(deadline: float) -> float:
    return max(1.0, (deadline - time.monotonic()) * 1000)
