"""Whoever is to be told of versions, opened from the settings, beside the loop of a task and never in its way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from exporter import threads
from exporter.coordinate.leading import AllPartitions, OwnsLeast
from exporter.core.coordination import Leadership
from exporter.kafka.options import kafka_python_options
from exporter.monitor.watch import Watch
from exporter.secrets import keep_secret
from exporter.settings.meaning import EVENTS_TOPIC, event_groups
from exporter.settings.model import Settings
from exporter.settings.table import revealed
from exporter.stores.store import Store
from exporter.task.coordinating import AskedPartitions

if TYPE_CHECKING:
    from exporter.announce.follower import Follower

LAST_SECS = 3.0
"""What the last messages may take, of the time that the way out has (ending.LEAVE_SECS)."""


@contextmanager
def announcing(settings: Settings, store: Store, watch: Watch) -> Iterator[None]:
    """Announce while this lasts, if anybody is to be told, and what is left after it has ended well."""
    webhook = revealed(settings.events_webhook)
    if not event_groups(settings):
        yield
        return
    from exporter.announce.announcing import Announcing  # only who needs it waits for its imports

    keep_secret(webhook)
    with _leadership(settings, watch) as leadership:
        running = Announcing(_followers(settings, store, webhook), leadership)
        watch.sinks = lambda: running.states
        budget_secs = 0.0
        try:
            running.wait_begun()
            yield
            budget_secs = LAST_SECS
        finally:
            running.close(budget_secs)


def _followers(settings: Settings, store: Store, webhook: str | None) -> dict[str, Follower]:
    from exporter.announce.follower import Follower
    from exporter.announce.kept import GroupPointers
    from exporter.announce.logs import TableLogs
    from exporter.announce.webhook import Webhook
    from exporter.kafka.sender import Sender

    client, made = kafka_python_options(settings), {}
    for sink, group in event_groups(settings).items():
        to = Sender(client, settings.events_topic) if sink == EVENTS_TOPIC else Webhook(webhook or "")
        kept = GroupPointers(client, group, settings.selection)
        made[sink] = Follower(settings.app, TableLogs(store, settings.sync), to, kept)
    return made


@contextmanager
def _leadership(settings: Settings, watch: Watch) -> Iterator[Leadership]:
    """Who owns the least partition announces; of a leased one, whoever has the lease."""
    asked = AskedPartitions(settings)
    pool = threads.pool(1, "announce-partitions")
    try:
        everything = AllPartitions(asked, pool, settings.topics_refresh_secs)
        yield _OneAtATime(OwnsLeast(lambda: watch.owned, everything))
    finally:
        pool.submit(asked.close)
        pool.shutdown(wait=False)


class _OneAtATime:
    """A Leadership that several threads may ask."""

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._lock = threads.lock()

    def is_mine(self) -> bool:
        with self._lock:
            return self._leadership.is_mine()

    def close(self) -> None:
        self._leadership.close()
