"""Records that were erased: of which topic an offset is, and what a table knows (ERASED, protocol 4.16)."""

from __future__ import annotations

import random

from exporter.lake.log_files import as_view
from offsets.erased import ERASED_PROPERTY, ERASING_PROPERTY, Erased, erased, erasing, erasures_known
from offsets.ranges import TopicPartition
from offsets.table_log import APP_PROPERTY, LogState, TableView

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def view(app: str = "app", **said: str) -> TableView:
    """A table's; said: its properties, and `known`, the version of its transaction."""
    known = said.pop("known", None)
    configuration = {APP_PROPERTY: app, **{name.replace("_", "."): value for name, value in said.items()}}
    metadata = {"id": "i", "schemaString": '{"type":"struct","fields":[]}', "configuration": configuration}
    return as_view(0, LogState(metadata, {}, {} if known is None else {"app/erased": int(known)}))


def test_offsets_are_those_of_the_topic_of_today() -> None:
    """Found as who looks at each of them finds them."""
    rng = random.Random(7)
    places = [("t", rng.randrange(2), rng.randrange(4), rng.randrange(50)) for _ in range(200)]
    found = Erased.of(3, places)
    for _ in range(200):
        tp, since, start = rng.choice([TP, OTHER]), rng.randrange(5), rng.randrange(50)
        end = start + rng.randrange(20)
        one_by_one = {
            offset for topic, partition, epoch, offset in places
            if (topic, partition) == (tp.topic, tp.partition) and epoch >= since and start <= offset < end
        }  # fmt: skip
        assert found.offsets(tp, since, start, end) == one_by_one
    assert found.offsets(TopicPartition("u", 0), 0) == frozenset() == Erased().offsets(TP, 0)


def test_what_a_table_knows_is_the_most_that_it_says() -> None:
    """A RESTORE takes properties back, and no transaction. Those of another app say nothing."""
    told = view(exporter_erasing="2", exporter_erased="1", known="2")
    restored = view(known="2")
    assert (erasing(told), erased(told), erasing(restored), erased(restored)) == (2, 1, 0, 0)
    assert [erasures_known([one]) for one in (told, restored, view(), view(app="other", known="2"))] == [2, 2, 0, 0]
    assert erasures_known([view(), told]) == 2 and erasures_known([]) == 0


def test_what_is_staged_fits_the_erasures_that_a_table_was_told_of() -> None:
    """That the rows are gone, too, changes nothing of it."""
    assert (ERASING_PROPERTY, ERASED_PROPERTY) == ("exporter.erasing", "exporter.erased")
    frames = [view(**said).frame for said in ({}, {"exporter_erasing": "1"}, {"exporter_erasing": "2"})]
    assert len({*frames}) == 3
    assert view(exporter_erasing="1", exporter_erased="1", known="1").frame == frames[1]
    assert view(exporter_other="1").frame == frames[0]
