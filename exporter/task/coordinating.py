"""What a task in coordinated mode commits with, put together from the settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor

from exporter import threads
from exporter.coordinate.channel import TopicChannel
from exporter.coordinate.coordinated import CoordinatedCommits
from exporter.coordinate.leader import Leader
from exporter.coordinate.leading import AllPartitions, OwnsLeast
from exporter.coordinate.loss import as_lossy_as_told
from exporter.coordinate.member import RoundMember
from exporter.coordinate.rounds import LeaderRounds
from exporter.coordinate.signature import Signature
from exporter.core.coordination import Channel, Leadership
from exporter.kafka.control import ControlTopic
from exporter.kafka.options import kafka_python_options
from exporter.kafka.topics import TopicReader, partitions_of
from exporter.lake.lake import Lake
from exporter.monitor.watch import Watch
from exporter.protocol.commit import DeltaCommitter
from exporter.protocol.control_key import control_key
from exporter.protocol.merged import MergedCommits
from exporter.settings.model import Settings
from offsets.ranges import TopicPartition

MERGE_THREADS = 8
"""Tables that a leader commits at a time, mostly waiting for the storage: it commits for all tasks, of which each has
three threads for itself."""


def coordinated_commits(
    settings: Settings,
    lake: Lake,
    committer: DeltaCommitter,
    routing: str,
    watch: Watch,
    wake: Callable[[], None],
    ends: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]],
    leadership: Leadership | None = None,
) -> Callable[[Executor], CoordinatedCommits]:
    """Made of the pool in which commits are prepared. routing: the fingerprint of the configuration.

    wake: lets the loop iterate. ends: as MergedCommits. leadership: None where it follows from which partitions are
    whose.
    """

    def coordinated(pool: Executor) -> CoordinatedCommits:
        merging = threads.pool(MERGE_THREADS, "merge")
        wire = ControlTopic(kafka_python_options(settings), settings.control_topic)
        signature = Signature(lambda: control_key(lake.store, settings.app, lake.sync))
        partitions = AskedPartitions(settings)
        everything = AllPartitions(partitions, merging, settings.topics_refresh_secs)
        leads = leadership or OwnsLeast(lambda: watch.owned, everything)
        channel: Channel = as_lossy_as_told(TopicChannel(wire, settings.app, signature, leads.is_mine))
        member = RoundMember(settings.app, watch.owner, committer, pool, channel, settings.commit_timeout_secs, wake)
        rounds = LeaderRounds(settings.app, watch.owner, settings.commit_interval_secs, settings.commit_timeout_secs)
        merger = MergedCommits(lake, watch.owner, routing, committer.trusted, ends, committer.through)
        leader = Leader(rounds, leads, merger, everything, merging, channel)

        def release() -> None:
            merging.shutdown(wait=False, cancel_futures=True)
            partitions.close()

        commits = CoordinatedCommits(channel, member, leader, leads, settings.grace_secs, release=release)
        watch.coordination = commits.state
        return commits

    return coordinated


class AskedPartitions:
    """Asks for all partitions of the topics, over a connection of its own: that of the loop is for the loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reader: TopicReader | None = None

    def __call__(self) -> list[TopicPartition]:
        """For one thread at a time. Raises ExporterError."""
        if self._reader is None:
            settings = self._settings
            self._reader = TopicReader(kafka_python_options(settings), settings.selection, settings.isolation)
        return partitions_of(self._reader.identities())

    def close(self) -> None:
        """Close the reader: nobody asks any more."""
        if self._reader is not None:
            self._reader.close()
