"""Whatever text comes from others: a table, a log, a metric and a stream take it."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from exporter.arrow.own_columns import DEAD_LETTER_SCHEMA
from exporter.core.manifest import REASON
from exporter.executor.dead_letters import dead_letter_rows
from exporter.monitor.totals import Totals
from exporter.shape.apart import reason
from exporter.text import encodable, first_line, told, why
from offsets.ranges import TopicPartition
from tests.support.snapshots import scraped, snapshot

LONE = "a \ud800 b \udfff"
SHOWN = "a \\ud800 b \\udfff"
TEXTS = st.text(st.characters(exclude_categories=()))


class Mute(Exception):
    """Its own method fails."""

    def __str__(self) -> str:
        raise RuntimeError("no")


@given(TEXTS)
def test_every_text_of_python_is_one_that_utf_8_has_afterwards(text: str) -> None:
    """Unchanged but for lone surrogates; in each of the ways, too, in which errors are told."""
    found = encodable(text)
    assert found.encode().decode() == found == encodable(found)
    assert found == "".join(f"\\u{ord(one):x}" if "\ud800" <= one <= "\udfff" else one for one in text)
    for said in (told(ValueError(text)), first_line(ValueError(text)), why(ValueError(text)), reason("c", text)):
        said.encode()


def test_an_error_that_cannot_say_what_it_is_about_is_told_by_its_class() -> None:
    """Its own method is anybody's code."""
    assert told(Mute()) == first_line(Mute()) == "Mute: (its text cannot be told: RuntimeError)"


def test_a_dead_letter_s_reason_is_one_that_its_table_takes() -> None:
    """Whoever made it."""
    batch = pa.record_batch(
        {
            "offset": pa.array([5], pa.int64()), "timestamp": pa.array([0], pa.timestamp("us", "UTC")),
            "key": pa.array([b"k"]), "value": pa.array([b"v"]),
        }
    )  # fmt: skip
    rows = dead_letter_rows(batch, [(0, "order", "transform", LONE)], TopicPartition("t", 0), 0)
    assert rows.schema == DEAD_LETTER_SCHEMA and rows.column("reason").to_pylist() == [SHOWN]


def test_a_metric_s_label_is_one_that_a_scrape_takes() -> None:
    """Else nothing is scraped at all."""
    totals = Totals()
    totals.counts[REASON + LONE] = 3
    found = scraped(snapshot(totals=totals))
    assert any(SHOWN in dict(labels).values() for series in found.values() for labels in series)
