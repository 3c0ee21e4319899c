"""What a task of a round says when its storage is out: it is the storage's fault, no type's and no record's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.core.manifest import RoundResult
from exporter.core.order import StagingBudget
from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import PartitionPlan
from exporter.errors import RoundFailed
from exporter.executor.stage import stage
from exporter.local.proxy import WELL, Down, FaultyProxy, Troubles
from exporter.rounds.told import round_result
from exporter.stores import object_client, object_store
from exporter.stores.file import FileStore
from exporter.stores.object_client import StorePatience
from exporter.stores.store import Store
from offsets.ranges import TopicPartition
from tests.support.orders import order_of
from tests.support.services import fresh_name
from tests.unit.executor.test_stage import ROUTING, TP, batch, record

BOUNDS = {"a": -1, "b": -1, DEAD_LETTERS: -1}
BATCHES = [[record("a", 1), record("b", 2), None], [record("b", 3), record("a", 4)]]


@pytest.fixture
def proxy(s3: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """The way to a real S3, whose clients here give up after half a second."""
    monkeypatch.setattr(object_client, "RETRY_SECS", 0.5)
    monkeypatch.setattr(object_client, "PROBE_SECS", 1)
    monkeypatch.setattr(object_client, "REQUEST_SECS", 1)
    monkeypatch.setattr(object_store, "PROBING", object_client.PROBING._replace(secs=1))
    monkeypatch.setattr(object_store, "_patience", StorePatience())
    with FaultyProxy(s3.options["endpoint"]) as proxy:
        yield proxy


def staged(s3: Store, proxy: FaultyProxy, **given: object) -> RoundResult:
    """What the driver makes of one task's manifest; the storage is well again by then."""
    root = s3.uri(fresh_name("lake"))
    plans: dict[TopicPartition, PartitionPlan] = {TP: PartitionPlan(TP, 1, 2, 0, 10_000, BOUNDS)}
    options = {**s3.options, "endpoint": proxy.endpoint}
    order = order_of(root, ROUTING, plans, store_options=options)
    (manifest,) = stage(order, iter([batch(values, first=10 * number) for number, values in enumerate(BATCHES)]))
    proxy.troubles = WELL
    return round_result(order, manifest.to_pylist())


@pytest.mark.parametrize("troubles", [Troubles(down=Down.REFUSES), Troubles(down=Down.HANGS), Troubles(throttled=1.0)])
def test_a_storage_that_is_out_is_told_by_the_task_itself(s3: Store, proxy: FaultyProxy, troubles: Troubles) -> None:
    """Nothing of the round counts, and no type is named: whoever asks the storage later finds it well again."""
    proxy.troubles = troubles
    result = staged(s3, proxy)
    assert result.storage.startswith(s3.uri()) and result.incomplete == result.storage
    assert (result.fragments, result.unwritten) == ((), {})
    with pytest.raises(RoundFailed, match="storage"):
        result.whole()


def test_one_table_s_trouble_in_the_store_is_its_own(s3: Store, proxy: FaultyProxy) -> None:
    """As a store does that throttles by prefixes: the other types' files are written."""
    proxy.troubles = Troubles(throttled=1.0, path="/a/day=")
    result = staged(s3, proxy)
    assert (result.storage, result.unwritten.keys()) == ("", {"a"})
    assert result.fragments[0].files.keys() == {"b", DEAD_LETTERS}


@pytest.mark.parametrize("troubles", [Troubles(lost_every=2), Troubles(failed_every=2), Troubles(throttled=0.3)])
def test_files_are_written_once_whatever_becomes_of_their_replies(
    s3: Store, proxy: FaultyProxy, troubles: Troubles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NAMES: a file that meets itself under its name is written; it is no failure, and there is no second one."""
    monkeypatch.setattr(object_client, "RETRY_SECS", 20.0)
    proxy.troubles = troubles
    result = staged(s3, proxy)
    assert result.incomplete == ""
    assert {name: sum(file.rows for file in files) for name, files in result.fragments[0].files.items()} == {
        "a": 2, "b": 2, DEAD_LETTERS: 1,
    }  # fmt: skip


def test_a_task_whose_storage_is_out_leaves_the_rest_of_its_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in Kafka and read again; to fetch it for nothing would hold up the round that waits for the storage."""

    def out(*_: object) -> None:
        raise OSError("no answer")

    monkeypatch.setattr(FileStore, "write_once", out)
    monkeypatch.setattr(FileStore, "trouble", lambda _: "it does not answer")
    plans: dict[TopicPartition, PartitionPlan] = {TP: PartitionPlan(TP, 1, 2, 0, 10_000, BOUNDS)}
    order = order_of(tmp_path, ROUTING, plans, room=StagingBudget(bytes=8))
    rest = iter([batch([record("a", 1), record("b", 2)], first=2 * number) for number in range(9)])
    (manifest,) = stage(order, rest)
    assert round_result(order, manifest.to_pylist()).storage == "it does not answer"
    assert len([*rest]) > 5
