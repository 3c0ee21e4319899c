"""A real topic to real tables, in one process on the shared session: what a user finds in them, and what not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lakes import Export, mixed, wrong_places
from tests.services import fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture
def export(kafka: str, topic: Callable[..., str], tmp_path: Path) -> Callable[..., Export]:
    """Makes exports of fresh topics: export(partitions=2, isolation="read_uncommitted")."""

    def make(partitions: int = 1, **scalars: Any) -> Export:
        return Export(kafka, topic(partitions), tmp_path, fresh_name("app"), scalars=scalars)

    return make


def test_every_record_is_once_in_the_table_of_its_type(export: Callable[..., Export], spark: Any) -> None:
    """ONCE: mixed types in two partitions, days out of order, some bad; a second run adds nothing."""
    e = export(2)
    produce(e.kafka, e.topic, {0: mixed(400), 1: mixed(300, first=1000)})
    e.run(spark)
    assert wrong_places(e) == {}
    e.run(spark)
    assert wrong_places(e) == {}
