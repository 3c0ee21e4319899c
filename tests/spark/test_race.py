"""FENCE in an object store: of two processes that commit to one table at once no commit is lost, nor lands twice."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from exporter.local.proxy import WELL, FaultyProxy, RequestFate, Troubles
from exporter.stores.store import Store
from exporter.stores.stores import open_store
from tests.support.committing import Committing, app_id, logged
from tests.support.services import fresh_name

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("s3")]

COMMITS = 30
ENTRIES = "/_delta_log/"
DELTAS_OWN = "io.delta.storage.S3SingleDriverLogStore"


@pytest.fixture(scope="module")
def proxy(s3: Store) -> Iterator[FaultyProxy]:
    with FaultyProxy(s3.options["endpoint"]) as running:
        yield running


@pytest.fixture(scope="module")
def store(s3: Store, proxy: FaultyProxy) -> Store:
    """A place of its own in the bucket, through the proxy."""
    place = s3.below(fresh_name("race"))
    return open_store(place.uri(), {**place.options, "endpoint": proxy.endpoint})


@pytest.fixture(scope="module")
def two(store: Store) -> Iterator[tuple[Committing, Committing]]:
    with Committing(store, 0) as one, Committing(store, 1) as other:
        yield one, other


def raced(
    two: tuple[Committing, Committing], table: str, commits: int = COMMITS, log_store: str = ""
) -> list[dict[int, int]]:
    """Of each of the two, by the versions that it was told it had made, its position."""
    for one in two:
        one.begin(table, commits, log_store)
    found = [one.done() for one in two]
    assert sum(len(one["failed"]) for one in found) <= 1, "one may find that the table was just made"
    return [dict(one["landed"]) for one in found]


def test_of_two_that_commit_at_once_no_commit_is_lost(two: tuple[Committing, Committing], store: Store) -> None:
    """Each version is one's, and its entry says what that one was told."""
    told = raced(two, "order")
    versions = logged(store, "order")
    assert not told[0].keys() & told[1].keys() and len(versions) == len(told[0]) + len(told[1]) >= 2 * COMMITS - 1
    for partition, mine in enumerate(told):
        assert all(versions[version] == {app_id(partition): number} for version, number in mine.items())


def test_with_a_store_that_looks_first_the_same_race_loses_commits(
    two: tuple[Committing, Committing], store: Store, proxy: FaultyProxy
) -> None:
    """So the test above can fail: Delta's own log store tells both of them that they made a version."""
    proxy.troubles = Troubles(delay_secs=0.02, path=ENTRIES)
    told = raced(two, "lost", 12, DELTAS_OWN)
    proxy.troubles = WELL
    versions = logged(store, "lost")
    lost = [version for version in told[0] if version in told[1]]
    assert lost and len(versions) == len(told[0]) + len(told[1]) - len(lost)


def test_a_commit_whose_reply_is_lost_is_known_as_landed_and_none_lands_twice(
    two: tuple[Committing, Committing], store: Store, proxy: FaultyProxy
) -> None:
    """Every third PUT of the log: the client sends it again by itself, meets its own bytes, and says so."""
    before = proxy.fates[RequestFate.LOST]
    proxy.troubles = Troubles(lost_every=3, path=ENTRIES)
    told = raced(two, "lossy")
    proxy.troubles = WELL
    assert proxy.fates[RequestFate.LOST] - before >= COMMITS / 3
    versions = logged(store, "lossy")
    assert len(versions) == len(told[0]) + len(told[1])
    for partition, mine in enumerate(told):
        assert all(versions[version] == {app_id(partition): number} for version, number in mine.items())
        assert [*mine.values()] == sorted({*mine.values()})


def test_a_file_whose_reply_is_lost_is_written_once_and_known_as_written(store: Store, proxy: FaultyProxy) -> None:
    """By the workers' side: of several at once, every third."""
    before = proxy.fates[RequestFate.LOST]
    proxy.troubles = Troubles(lost_every=3, path="/day=1/")
    names = [f"order/day=1/{number}.parquet" for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(lambda name: store.write_once(name, name.encode()), names)] == [None] * 40
    proxy.troubles = WELL
    assert proxy.fates[RequestFate.LOST] - before >= 13
    assert sorted((file.path, file.bytes) for file in store.files("order/day=1")) == sorted((n, len(n)) for n in names)
    with pytest.raises(FileExistsError):
        store.write_once(names[0], names[0].encode())
