"""Commits that a task makes by itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Executor, Future

from exporter.core.due import Occasion
from exporter.core.outcome import Committer, Report
from exporter.core.writers import Claim
from offsets.ranges import TopicPartition


class OwnCommits:
    """The Commits of a task that waits for nobody: each is made at once, in the pool. No round ever begins."""

    def __init__(self, committer: Committer, pool: Executor) -> None:
        self._committer = committer
        self._pool = pool

    def occasion(self, flushing: bool) -> Occasion:
        return Occasion(flushing)

    def submit(self, event_type: str, claims: Sequence[Claim], in_hurry: bool) -> Future[Report]:
        return self._pool.submit(self._committer.commit, event_type, claims)

    def rolled(self, partitions: Collection[TopicPartition]) -> None:
        """Does nothing: nobody waits for a task that commits by itself."""

    def hurry(self) -> None:
        """They are as fast as they can be."""

    def close(self) -> None:
        """The pool is its maker's."""
