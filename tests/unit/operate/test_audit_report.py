"""What an audit says, without Spark."""

from __future__ import annotations

import ast
import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from exporter.errors import ConfigError
from exporter.kafka.topics import FirstPosition
from exporter.operate.audit.report import (
    FINDINGS,
    AbsentFile,
    AuditReport,
    BadOffset,
    Differing,
    Example,
    TableCount,
    compress,
    examples,
)
from exporter.operate.chosen import Since, parse_offsets, parse_since
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.selection import Topics

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("offsets", "text"),
    [([], ""), ([5], "5"), ([17, 18, 19, 20, 25], "17..20, 25"), ([3, 1, 2, 2], "1..3"), ([0, 2, 4], "0, 2, 4")],
)
def test_offsets_are_shown_as_ranges(offsets, text):
    """Neighbours become one range, whatever the order, and an offset counts once."""
    assert compress(offsets) == text


def test_ranges_beyond_the_limit_are_left_out_visibly():
    """A long list ends with dots."""
    assert compress(range(0, 100, 2), ranges_max=2) == "0, 2, ..."


@pytest.mark.parametrize(("text", "starts"), [("0:1000,1:500", {0: 1000, 1: 500}), (" 2 : 7 ,t:3:8", {2: 7, 3: 8})])
def test_first_offsets_are_read_per_partition(text, starts):
    """PARTITION:OFFSET, comma-separated, blanks allowed; the topic may stand before it."""
    assert parse_offsets(text, Topics(("t",))) == {TopicPartition("t", at): start for at, start in starts.items()}


def test_first_offsets_of_several_topics_name_them():
    """TOPIC:PARTITION:OFFSET, for names and for a pattern."""
    wanted = {TopicPartition("a", 0): 7, TopicPartition("b.c", 0): 8}
    for topics in (Topics(("a", "b.c")), Topics(pattern="a|b.*")):
        assert parse_offsets("a:0:7, b.c:0:8", topics) == wanted
        with pytest.raises(ConfigError, match="TOPIC:PARTITION:OFFSET"):
            parse_offsets("0:7", topics)
        with pytest.raises(ConfigError, match="topic 'd' is not exported"):
            parse_offsets("d:0:7", topics)


@pytest.mark.parametrize("text", ["", "5", "a:1", "1:-2", "0:1,0:2", "0:1,", "0:1:2", "t:0:1:2", ":0:1", "0:1,t:0:2"])
def test_other_texts_are_no_first_offsets(text):
    """What is no PARTITION:OFFSET is a ConfigError, as is a partition named twice."""
    with pytest.raises(ConfigError):
        parse_offsets(text, Topics(("t",)))


NOW = datetime(2025, 3, 9, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("24h", datetime(2025, 3, 8, 12, tzinfo=timezone.utc)),
        ("90m", datetime(2025, 3, 9, 10, 30, tzinfo=timezone.utc)),
        ("7d", datetime(2025, 3, 2, 12, tzinfo=timezone.utc)),
        ("99999d", datetime(1970, 1, 1, tzinfo=timezone.utc)),
        ("2025-03-09", datetime(2025, 3, 9, tzinfo=timezone.utc)),
        ("2025-03-09T06:00", datetime(2025, 3, 9, 6, tzinfo=timezone.utc)),
        ("2025-03-09T06:00:00.001Z", datetime(2025, 3, 9, 6, microsecond=1000, tzinfo=timezone.utc)),
        ("2025-03-09T06:00+02:00", datetime(2025, 3, 9, 4, tzinfo=timezone.utc)),
    ],
)
def test_since_is_a_time_of_the_records(text, wanted):
    """So long ago, or a time, in UTC if it says no zone: the topics say which offsets came since."""
    assert parse_since(text, Topics(("t",)), NOW) == Since(FirstPosition(int(wanted.timestamp() * 1000)))


@pytest.mark.parametrize("text", ["", "h", "0h", "-1h", "1w", "24 h", "yesterday", "2025-13-09"])
def test_other_texts_are_no_since(text):
    """The hint has one of each kind."""
    with pytest.raises(ConfigError, match="no time, PARTITION:OFFSET") as raised:
        parse_since(text, Topics(("t",)), NOW)
    assert "24h" in raised.value.hint


def test_since_offsets_are_those_and_since_a_time_those_that_the_topics_say():
    """Partitions that no offset is named for are looked at from their beginning."""

    class Asked:
        def identities(self):
            return {"t": TopicIdentity("cluster", "id", (0, 1))}

        def offsets_at(self, tps, timestamp_ms):
            return dict.fromkeys(tps, timestamp_ms)

    tps = [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert parse_since("0:7", Topics(("t",)), NOW).offsets(Asked()) == {tps[0]: 7}
    assert parse_since("1970-01-01T00:00:01Z", Topics(("t",)), NOW).offsets(Asked()) == dict.fromkeys(tps, 1000)


def test_what_is_left_out_is_told():
    """Nobody takes a proof of what is new for one of everything."""
    assert AuditReport(("t",)).as_text().endswith("each offset is where it must be exactly once")
    told = AuditReport(("t",), left_out=1200).as_text()
    assert "left out 1200, before --since" in told
    assert told.endswith("each offset that was looked at is where it must be exactly once")


def test_an_example_names_table_partition_and_offsets():
    """Findings of one kind, table and partition are one line."""
    found = [BadOffset("missing", "click", "t", 0, offset) for offset in (17, 18, 19, 20, 25)]
    assert [str(example) for example in examples(found)] == ["missing: click t-0: 17..20, 25"]


def test_every_kind_of_finding_gets_examples():
    """Many findings of one kind do not hide those of another."""
    found = [BadOffset("missing", f"type{n}", "t", 0, 1) for n in range(50)] + [BadOffset("twice", "a", "t", 1, 9, "b")]
    shown = examples(found, examples_max=5)
    assert len(shown) == 5
    assert str(shown[-1]) == "twice: a t-1: 9 (also in b)"


def test_a_row_without_coordinates_can_be_shown():
    """Such a row has neither partition nor offset."""
    assert str(examples([BadOffset("foreign", "a", None, None, None)])[0]) == "row without a record: a -: no offset"


@pytest.mark.parametrize("kind", [*FINDINGS, "absent_files", "problems"])
def test_one_of_any_kind_is_a_finding(kind):
    """An offset, an absent file, and a table that is gone make a report unclean."""
    assert not AuditReport(("t",), **{kind: ("table a is gone",) if kind == "problems" else 1}).clean


def test_what_is_pending_gone_or_before_the_first_position_is_no_finding():
    """These counts are shown, and the report is clean."""
    report = AuditReport(("t",), once=3, pending=5, before_first=7, gone=9, unchecked=1)
    assert report.clean
    assert "pending 5, before the first position 7, gone from the topic 9" in report.as_text()


def test_a_report_is_text_and_json():
    """The text holds tables, findings and files; the JSON form is the same report."""
    report = AuditReport(
        ("t",),
        missing=2,
        absent_files=1,
        absent=(AbsentFile("click", "day=2025-01-01/x.parquet", "2025-01-01", "t", 0, 4, 9),),
        examples=(Example("missing", "click", "t", 0, "4..5"),),
        tables=(TableCount("click", 10, 2, 1, 7),),
    )
    text = report.as_text()
    assert "click               10       2      1" in text
    assert "finding: missing: click t-0: 4..5" in text
    assert "live file absent: click/day=2025-01-01/x.parquet (t-0, offsets 4..9)" in text
    assert text.endswith("findings: 3")
    assert json.loads(json.dumps(report.as_dict()))["examples"][0]["offsets"] == "4..5"
    assert report.as_dict()["clean"] is False


def test_contents_are_told_by_path_and_never_by_value():
    """How many were compared whole, and where the first of them differ."""
    differing = (Differing("click", "t", 0, 17, "$.a[0]", "a number", "nothing", 3),)
    report = AuditReport(("t",), different=1, contents=40, contents_skipped=1, differing=differing)
    text = report.as_text()
    assert "contents compared whole: 40, 1 cannot be" in text
    assert "finding: contents: click t-0: 17 $.a[0]: a number in the topic, nothing in the table (and 2 more)" in text
    assert json.loads(json.dumps(report.as_dict()))["differing"][0]["path"] == "$.a[0]"
    assert "contents" not in AuditReport(("t",)).as_text()


def reached(modules):
    """These, and all modules of this project that they import, and that those do."""
    waiting, seen = {*modules}, set()
    while waiting:
        module = waiting.pop()
        seen.add(module)
        nodes = [*ast.walk(ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text()))]
        names = {f"{node.module}.{a.name}" for node in nodes if isinstance(node, ast.ImportFrom) for a in node.names}
        names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
        names |= {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
        waiting |= {name for name in names if (ROOT / f"{name.replace('.', '/')}.py").exists()} - seen
    return seen


def modules_in(*folders):
    """All of them."""
    paths = [path for one in folders for path in (ROOT / "exporter" / one).rglob("*.py") if path.stem != "__init__"]
    return [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]


def test_the_audit_shares_no_code_with_the_export():
    """Neither the audit nor what it imports reaches the rooms that route, decode, stage, read or commit."""
    seen = reached(["exporter.operate.audit.audit"])
    theirs = {name for name in seen if name.split(".")[1] in ("executor", "formats", "shape", "rounds", "protocol")}
    assert not theirs
    stores = {name.split(".")[2] for name in seen if name.startswith("exporter.stores.")}
    assert "file" in stores and not stores & {"parquet", "statistics"}, "how data files are made it does not know"
    assert "exporter.operate.audit.opinion" in seen and "exporter.lake.table" in seen


SAID_BY_SETTINGS = {
    "columns", "decoder_version", "record_columns", "routing", "schemas", "shapes", "value_format",
}  # fmt: skip
"""Of core: what a configuration is, and what columns are called."""
WRITTEN = {"types", "spark_json"}
"""Of column: how a configuration writes its columns."""
WORDS = {"errors", "secrets", "text", "within"}
NAMES = {"names", "partitions", "ranges"}
"""Of offsets."""


def test_the_second_reading_of_values_meets_the_first_in_settings_names_and_errors_alone():
    """No fault of one can be one of the other, too: whatever else both could reach is here by name."""
    second = reached(modules_in("proof"))
    first = reached(modules_in("formats", "executor", "shape"))
    known = {f"exporter.core.{name}" for name in SAID_BY_SETTINGS}
    known |= {f"exporter.column.{name}" for name in WRITTEN}
    known |= {f"exporter.{name}" for name in WORDS} | {f"offsets.{name}" for name in NAMES}
    assert second & first == known
    assert {"exporter.proof.readers.mongo_documents"} <= second and "exporter.formats.envelopes.mongo" in first


def test_the_audit_asks_a_store_only_what_is_there():
    """What it proves it does not touch: of a store it uses what reads and lists."""
    paths = [*(ROOT / "exporter" / "operate" / "audit").rglob("*.py"), ROOT / "exporter" / "stores" / "live.py"]
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text()))]
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    assert used & {"read", "files", "live_size"} == {"read", "files", "live_size"}
    assert not used & {"write_once", "delete", "sync", "lock", "unwritable"}
