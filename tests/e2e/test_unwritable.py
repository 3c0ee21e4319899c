"""The files of one table cannot be written: found by `exporter drill --scenario one-type-unstaged`.

It used to fail whole rounds, down to a single record, which was then taken for one that no decoder survives.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exporter.errors import ConfigError
from tests.support.lakes import Exports, mixed, wait_until, wrong_places

pytestmark = [pytest.mark.broker, pytest.mark.spark]

BLOCKED = "day=2026-01-29"


@pytest.mark.long
def test_a_table_whose_files_cannot_be_written_is_parked_and_the_others_go_on(
    exports: Exports, tmp_path: Path, spark: Any
) -> None:
    """No record is taken for poison; once they can be written, it catches up by itself."""
    e = exports(2)
    e.send({0: mixed(50), 1: mixed(50, first=1000)})
    e.run(spark)
    for path in (e.folder("order") / BLOCKED).iterdir():
        path.rename(tmp_path / path.name)
    (e.folder("order") / BLOCKED).rmdir()
    (e.folder("order") / BLOCKED).write_text("no folder")
    e.send({0: mixed(200, first=50), 1: mixed(200, first=1050)})
    with e.going(spark) as task:
        wait_until(lambda: {e.position("click", at)[1] for at in (0, 1)} == {249}, 60, "the others go on")
        wait_until(lambda: task.service.totals.rounds > 4, 60, "it is tried again")
        assert {e.position("order", at)[1] for at in (0, 1)} == {49}
        assert all(not found for found in task.service._known.poison_offsets.values())
        (e.folder("order") / BLOCKED).unlink()
        (e.folder("order") / BLOCKED).mkdir()
        for path in tmp_path.glob("*.parquet"):
            path.rename(e.folder("order") / BLOCKED / path.name)
        wait_until(lambda: {e.position("order", at)[1] for at in (0, 1)} == {249}, 60, "it catches up")
    assert wrong_places(e) == {}


def test_a_start_that_nothing_but_a_user_can_help_says_what_is_in_the_way(exports: Exports, spark: Any) -> None:
    """Exit 2 and the path: not 75, for no other task is at work. Once it is away, the same start exports all."""
    e = exports()
    e.send({0: mixed(20)})
    e.folder("order").parent.mkdir()
    e.folder("order").write_text("no folder")
    with pytest.raises(ConfigError, match="lake/order is a file, where a folder has to be"):
        e.run(spark)
    e.folder("order").unlink()
    e.run(spark)
    assert wrong_places(e) == {}
