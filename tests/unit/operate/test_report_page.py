"""The report's page: what it says of known facts, and that no name of a type or topic becomes markup."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from exporter.core.standing import TableStanding
from exporter.display.concerns import Concern
from exporter.display.units import moment, secs_span, short, size, span, sums, things
from exporter.errors import ConfigError
from exporter.operate.chosen import parse_ranges
from exporter.operate.dead_letters.listing import DeadLetterCount
from exporter.operate.report.model import DayFiles, Facts, FailedCommit, Happened
from exporter.operate.report.page import DAYS_MAX, VERSIONS_MAX, report_page
from exporter.operate.report.verdict import DUE_FILES, report_concerns
from exporter.text import escaped, readable
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
AT = int(NOW.timestamp() * 1000)
EVIL = '<script>alert("1")</script>\x1b'


def facts(name: str = "order") -> Facts:
    """A table that is 7 behind, one that is not anchored, commits of four kinds, two reasons."""
    return Facts(
        "app", "/data/lake", NOW,
        [TableStanding(name, TopicPartition("t", 0), Position(1, 92), 100),
         TableStanding("click", TopicPartition("t", 0), None, 100),
         TableStanding("dead_letters", TopicPartition("t", 0), Position(1, 99), 100)],
        [Happened(AT, name, "with rows", 50), Happened(AT + 60_000, name, "with rows", 43),
         Happened(AT, "click", "empty marker"), Happened(AT + 5, name, "failed"), Happened(AT + 9, name, name)],
        [DayFiles(name, "2026-11-20", 3, 3 << 20), DayFiles(name, "2026-11-21", 1, 100)],
        [DeadLetterCount(name, "decode", "type_mismatch", "2026-11-20", 4, "t-0:1", "t-0:9"),
         DeadLetterCount(None, "route", "not_json", "2026-11-21", 2, "t-0:3", "t-0:5"),
         DeadLetterCount(name, "decode", "type_mismatch", "2026-11-21", 1, "t-0:1", "t-0:9")],
        [Concern(f"note on {name}")],
    )  # fmt: skip


def test_the_page_tells_what_the_facts_say() -> None:
    """Lag with the furthest first, commits by outcome, sizes, dead letters by reason, positions."""
    made = report_page(facts())
    assert "3 tables, 4 files of 3.0\u00a0MiB, 7 dead letters in them, a consumer lag of 100 offsets at most" in made
    assert made.index("click, t-0") < made.index("order, t-0")
    assert "with rows: 2" in made and "empty marker: 1" in made and "failed: 1" in made
    assert "type_mismatch" in made and "2026-11-20 to 2026-11-21" in made
    assert "note on order" in made


def test_a_hostile_name_is_only_ever_text() -> None:
    """Of a type, an outcome and a note; so is what a terminal would act upon."""
    made = report_page(facts(EVIL))
    assert "<script" not in made and "\x1b" not in made
    assert "&lt;script&gt;" in made


def test_a_commit_that_failed_is_shown_with_what_it_held_and_whose_it_was() -> None:
    """Counted by table, drawn in the colour of trouble, named with its partition, its offsets and its task."""
    failed = [FailedCommit(AT + 7, "order", TopicPartition("t", 3), (120, 134), 15, "host-b"),
              FailedCommit(AT + 8, "paid", TopicPartition("t", 0), (5, 5), 1, "host-c")]  # fmt: skip
    made = report_page(replace(facts(), happened=facts().happened[:2], failed=failed))
    assert "failed: 2" in made and 'fill="var(--bad)"' in made
    assert made.index("host-c") < made.index("host-b") and "120 to 134" in made and ">t-3<" in made
    assert "No commit failed" in report_page(replace(facts(), failed=[]))
    assert "is not known" in report_page(facts())


def test_the_verdict_says_what_to_do_about_many_small_files() -> None:
    """As many as maintenance would join now; a few of them, or large ones, are a note."""
    quiet = replace(facts(), places=[], dead_letters=[], notes=[], due=[(200, 200 * 12 << 10), (16, 16 * 12 << 10)])
    (one,) = report_concerns(quiet)
    assert one == Concern("216 files of 12.0\u00a0KiB in the mean", "exporter maintain --apply")
    assert "<b>look at:</b>" in report_page(quiet) and "<code>exporter maintain --apply</code>" in report_page(quiet)
    for due in ([(DUE_FILES - 1, 1 << 20)], [(DUE_FILES, DUE_FILES << 26)]):
        assert [one.bad for one in report_concerns(replace(quiet, due=due))] == [False]
    assert "<b>all well</b>" in report_page(replace(quiet, due=[]))


def test_the_verdict_says_that_nothing_is_committed_while_records_wait() -> None:
    """Only past the time in which a commit is due; what has not begun is a note."""
    old = [Happened(AT - 3_600_000, "order", "with rows", 5)]
    behind = replace(facts(), places=facts().places[:1], dead_letters=[], notes=[], happened=old)
    assert report_concerns(behind) == [
        Concern("nothing was committed for 1.0 h, and the consumer lag is 7 offsets", "exporter status")
    ]
    assert report_concerns(replace(behind, late_secs=4_000.0)) == []
    assert "nothing was committed ever" in report_page(replace(behind, happened=[]))
    begun = replace(behind, places=facts().places, happened=[Happened(AT, "order", "with rows", 5)])
    assert report_concerns(begun) == [Concern("partitions that have not begun, of: click", "exporter plan", bad=False)]


def test_dead_letters_are_trouble_from_a_share_of_the_records_on() -> None:
    """Of those that the commits that are shown have brought; where none has, nobody knows the share."""
    happened = [Happened(AT, "order", "with rows", 9_950), Happened(AT, "dead_letters", "with rows", 50)]
    some = replace(facts(), places=[], notes=[], happened=happened)
    assert report_concerns(some) == [
        Concern("7 dead letters, 0.50% of the records", "exporter dead-letters list", bad=False)
    ]
    assert report_concerns(replace(some, happened=happened[1:]))[0].bad
    (unknown,) = report_concerns(replace(some, happened=[]))
    assert unknown.what == "7 dead letters" and not unknown.bad


def test_age_and_dead_letters_are_drawn_over_the_time_of_the_commits() -> None:
    """The oldest record of a commit, by its own time, and the dead letters that came; else it is said that none did."""
    happened = [Happened(AT, "order", "with rows", 5, AT - 90_000), Happened(AT + 600_000, "dead_letters", "x", 3, AT)]
    made = report_page(replace(facts(), happened=happened))
    assert "Age of the oldest record as it was committed" in made and ">10.0 min<" in made
    assert "Dead letters committed, 10.0 s a column" in made and "dead letters: 3" in made
    made = report_page(facts())
    assert "How old the records were that commits brought is not known." in made
    assert "No commit that is shown has brought any." in made


def test_days_without_a_file_are_gaps_on_the_axis_of_days() -> None:
    """One place for each day of the calendar; what lies too far back to be drawn is told."""
    days = [DayFiles("order", day, 1, 10) for day in ("2026-11-01", "2026-11-10")]
    made = report_page(replace(facts(), days=days, happened=[]))
    assert re.findall(r'<rect x="([0-9.]+)" y="[0-9.]+" width="8.400"', made) == ["0.800", "90.800"] * 2
    others = [DayFiles("order", "2001-02-03", 7, 10), DayFiles("x", "-", 1, 1)]
    made = report_page(replace(facts(), days=[*days, *others]))
    assert f'width="{84 / DAYS_MAX:.3f}"' in made and ">2026-09-12<" in made
    assert "files of earlier days: 7, from 2001-02-03 on" in made and "without an event day: 1" in made


def test_rows_are_level_while_nothing_is_committed() -> None:
    """A pause is no slope: a table's line moves at its commits only, and all lines are as long as the time shown."""
    commits = ((0, "a"), (10, "b"), (900, "a"), (1_000, "b"))
    happened = [Happened(AT + at, name, "with rows", 10) for at, name in commits]
    made = report_page(replace(facts(), happened=happened))
    for line in re.findall(r'<polyline points="([^"]+)"', made):
        points = [tuple(map(float, point.split(","))) for point in line.split()]
        assert all(one[0] == other[0] or one[1] == other[1] for one, other in itertools.pairwise(points))
        assert (points[0][0], points[-1][0]) == (1.0, 99.0)


def test_dead_letters_are_gone_through_a_fixed_number_of_times() -> None:
    """However many types and reasons there are: 4,000 of them took as long as 16 million."""

    class Counted(list[DeadLetterCount]):
        times = 0

        def __iter__(self) -> Iterator[DeadLetterCount]:
            self.times += 1
            return super().__iter__()

    times = set()
    for types in (1, 50):
        dead_letters = Counted(DeadLetterCount(f"t{n}", "decode", "x", "2026-11-20", 1, "", "") for n in range(types))
        report_page(replace(facts(), dead_letters=dead_letters))
        times.add(dead_letters.times)
    assert len(times) == 1


def test_what_counts_as_added_is_explained_where_it_differs_from_what_is_there() -> None:
    """Rows added by the commits that are shown stand beside the dead letters that are there now."""
    made = report_page(facts())
    assert "7 dead letters in them" in made and "rows added" in made
    assert f"by the newest {VERSIONS_MAX} commits of each table" in made and "stand in dead_letters now" in made


def test_nothing_at_all_is_a_page_too() -> None:
    """No commit, no file, no dead letter, no broker."""
    place = TableStanding("order", TopicPartition("t", 0), Position(0, 5), None)
    made = report_page(Facts("app", "/data/lake", NOW, [place]))
    assert "the ends of the topics are not known" in made and "<svg" not in made


def test_units_are_those_that_a_person_reads() -> None:
    """Bytes, moments and spans."""
    sizes = [size(n).replace("\u00a0", " ") for n in (0, 1023, 1024, 5 << 20, 3 << 40)]
    assert sizes == ["0 B", "1023 B", "1.0 KiB", "5.0 MiB", "3.0 TiB"]
    assert [span(n) for n in (5, 1500, 90_000, 5_400_000, 864e5)] == ["5 ms", "1.5 s", "1.5 min", "1.5 h", "1.0 d"]
    assert moment(AT) == "11-21 12:00:00"
    assert [secs_span(n) for n in (3, 59, 90)] == ["3 s", "59 s", "1.5 min"]
    assert [short(n) for n in (0, 0.25, 12_500, 1_500_000)] == ["0", "0.25", "12,500", "1.5\u00a0M"]
    assert (things(1, "table"), things(2_000, "row")) == ("1 table", "2,000 rows")
    assert list(sums([("a", 1), ("b", 5), ("a", 2)]).items()) == [("b", 5), ("a", 3)]


def test_bytes_of_a_dead_letter_are_shown_as_text_that_no_terminal_acts_upon() -> None:
    """Escapes for what is no UTF-8 and for what is not printed; words of any language stay."""
    assert readable("größe 日".encode(), 100) == "größe 日"
    assert readable(b"\x1b[2J\xff\n\x00", 100) == "\\x1b[2J\\xff\\n\\x00"
    assert readable(b"abcdef", 3) == "abc... (6 bytes)"
    assert readable(None, 3) is None
    assert escaped("a\u202eb\u2028") == "a\\u202eb\\u2028"


def test_offsets_are_chosen_by_partition_and_range() -> None:
    """One topic needs no name; with several it does; what cannot be meant is refused."""
    assert parse_ranges("0:17, 1:5-9", ("t",)) == (
        (TopicPartition("t", 0), OffsetRange(17, 17)), (TopicPartition("t", 1), OffsetRange(5, 9)),
    )  # fmt: skip
    assert parse_ranges("a.b:0:3-4", ("t", "a.b")) == ((TopicPartition("a.b", 0), OffsetRange(3, 4)),)
    assert parse_ranges("", ("t",)) == ()
    for bad in ("0", "0:", "0:9-8", "x:1", "0:1-", "0:-1", "0:1-x", "a:b:c:0:1"):
        with pytest.raises(ConfigError):
            parse_ranges(bad, ("t",))
    with pytest.raises(ConfigError):
        parse_ranges("0:1", ("t", "u"))
