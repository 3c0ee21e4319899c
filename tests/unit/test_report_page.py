"""The report's page: what it says of known facts, and that no name of a type or topic becomes markup."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from exporter.errors import ConfigError
from exporter.letters import LetterCount, parse_ranges
from exporter.printable import escaped, readable
from exporter.report_page import DayFiles, Facts, Happened, Place, moment, report_page, size, span, sums
from offsets.ranges import OffsetRange, TopicPartition

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
AT = int(NOW.timestamp() * 1000)
EVIL = '<script>alert("1")</script>\x1b'


def facts(name: str = "order") -> Facts:
    """A table that is 7 behind, one that is not anchored, commits of four kinds, two reasons."""
    return Facts(
        "app", "/data/lake", NOW,
        [Place(name, TopicPartition("t", 0), 92, 1, 100), Place("click", TopicPartition("t", 0), None, None, 100),
         Place("dead_letters", TopicPartition("t", 0), 99, 1, 100)],
        [Happened(AT, name, "with rows", 50), Happened(AT + 60_000, name, "with rows", 43),
         Happened(AT, "click", "empty marker"), Happened(AT + 5, name, "failed"), Happened(AT + 9, name, name)],
        [DayFiles(name, "2026-11-20", 3, 3 << 20), DayFiles(name, "2026-11-21", 1, 100)],
        [LetterCount(name, "decode", "type_mismatch", "2026-11-20", 4, "t-0:1", "t-0:9"),
         LetterCount(None, "route", "not_json", "2026-11-21", 2, "t-0:3", "t-0:5"),
         LetterCount(name, "decode", "type_mismatch", "2026-11-21", 1, "t-0:1", "t-0:9")],
        [f"note on {name}"],
    )  # fmt: skip


def test_the_page_tells_what_the_facts_say() -> None:
    """Lag with the furthest first, commits by outcome, sizes, dead letters by reason, positions."""
    made = report_page(facts())
    assert "3 tables, 4 files of 3.0\u00a0MiB, 7 dead letters, at most 100 offsets behind" in made
    assert made.index("click, t-0") < made.index("order, t-0")
    assert "with rows: 2" in made and "empty marker: 1" in made and "failed: 1" in made
    assert "type_mismatch" in made and "2026-11-20 to 2026-11-21" in made
    assert "note on order" in made


def test_a_hostile_name_is_only_ever_text() -> None:
    """Of a type, an outcome and a note; so is what a terminal would act upon."""
    made = report_page(facts(EVIL))
    assert "<script" not in made and "\x1b" not in made
    assert "&lt;script&gt;" in made


def test_nothing_at_all_is_a_page_too() -> None:
    """No commit, no file, no dead letter, no broker."""
    made = report_page(Facts("app", "/data/lake", NOW, [Place("order", TopicPartition("t", 0), 5, 0, None)]))
    assert "the ends of the topics are not known" in made and "<svg" not in made


def test_units_are_those_that_a_person_reads() -> None:
    """Bytes, moments and spans."""
    sizes = [size(n).replace("\u00a0", " ") for n in (0, 1023, 1024, 5 << 20, 3 << 40)]
    assert sizes == ["0 B", "1023 B", "1.0 KiB", "5.0 MiB", "3.0 TiB"]
    assert [span(n) for n in (5, 1500, 90_000, 5_400_000, 864e5)] == ["5 ms", "1.5 s", "1.5 min", "1.5 h", "1.0 d"]
    assert moment(AT) == "11-21 12:00:00"
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
