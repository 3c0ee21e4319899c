"""The progress of a to_kafka job as texts of consumer groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.derive.to_kafka_progress import SendProgress, Torn, as_texts, groups_of, progress_from, texts_of
from offsets.cursors import Cursor
from offsets.positions import Position
from offsets.ranges import TopicPartition

METADATA_BYTES_MAX = 4_096
"""What brokers take by default (offset.metadata.max.bytes)."""


def progress_of(topics: int, partitions: int, name: str = "orders-of-a-shop.v{}", epoch: int = 0) -> SendProgress:
    tps = [TopicPartition(name.format(topic), one) for topic in range(topics) for one in range(partitions)]
    positions = {tp: Position(epoch, 10**12 + number) for number, tp in enumerate(tps)}
    replays = dict.fromkeys(tps[::7], 3)
    cursor = Cursor(positions, replays, 123_456, "c0ffee00-0000-4000-8000-000000000000")
    owner = "host.name:12345:abcdef01"
    return SendProgress("order", "dCcVf7kUQGSJ1nRsuVp2Nw", 12, owner, 1_800_000_000, 9, cursor, 4, 10**9)


@pytest.mark.parametrize(("topics", "partitions"), [(1, 0), (1, 1), (1, 200), (200, 1), (3, 500), (1, 5_000)])
def test_any_number_of_partitions_fits_into_what_brokers_take(topics: int, partitions: int) -> None:
    """More partitions take more texts, each below the limit; together they say all of it."""
    made = progress_of(topics, partitions)
    texts = as_texts(made)
    assert max(len(text.encode()) for text in texts) <= METADATA_BYTES_MAX
    assert texts_of(texts[0]) == len(texts) <= 1 + topics * partitions // 90
    assert progress_from(texts) == made
    assert groups_of("app.derive.out", len(texts))[0] == "app.derive.out"


def test_names_of_the_longest_kind_fit() -> None:
    """A topic's name has 249 characters at most."""
    made = progress_of(40, 2, "t" * 245 + "{}")
    assert max(map(len, as_texts(made))) <= METADATA_BYTES_MAX
    assert progress_from(as_texts(made)) == made


def test_texts_of_two_transactions_are_told_apart() -> None:
    """Whoever reads while another one writes may see some of each."""
    one = progress_of(1, 500)
    two = one.then("other", 1_800_000_001, rows=5)
    assert (two.number, two.rows, two.owner) == (one.number + 1, one.rows + 5, "other")
    first, second = as_texts(one), as_texts(two)
    assert len(first) == len(second) > 1
    with pytest.raises(Torn):
        progress_from([first[0], *second[1:]])
    with pytest.raises(Torn):
        progress_from(first[:-1])


@given(st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 300)), st.tuples(
    st.integers(0, 2**63 - 1), st.integers(0, 2**31), st.integers(0, 9)), max_size=60))  # fmt: skip
def test_any_progress_comes_back(taken: dict[tuple[str, int], tuple[int, int, int]]) -> None:
    """Whatever the positions are."""
    positions = {TopicPartition(*tp): Position(epoch, offset) for tp, (offset, epoch, _) in taken.items()}
    replays = {TopicPartition(*tp): replay for tp, (_, _, replay) in taken.items() if replay}
    made = SendProgress("x", "id", 1, "o", 1, cursor=Cursor(positions, replays, 5, "t"))
    assert progress_from(as_texts(made)) == made
