"""Tables in Google's storage, or on a fake-gcs-server, where one is given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exporter.stores.store import Store
from tests.support.racing import race
from tests.support.services import fresh_name

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("gcs")]


@pytest.mark.timeout(600)
@pytest.mark.skipif("EXPORTER_TEST_GCS" not in os.environ, reason="EXPORTER_TEST_GCS gives no address")
def test_of_two_processes_that_commit_at_once_no_commit_is_lost(gcs: Store, tmp_path: Path) -> None:
    """FENCE: Delta's own log store makes a version on the condition that it has no generation yet."""
    race(gcs.below(fresh_name("race")), tmp_path)
