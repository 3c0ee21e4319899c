"""A second audit, deliberately naive: plain Python, a dictionary and two libraries that are not the exporter's.

    kafka-python reads the topics ─┐
                                    ├─ {(topic, partition, offset): rows} ── findings, as text
    deltalake reads the tables ────┘

It takes the settings and decides for each record where it belongs with naive_record.py; positions and
anchors it reads from `_delta_log` itself. Its words are those of `exporter audit`. It is stricter in one
thing: a record that is certainly good must not be a dead letter, unless no decoder survived it.

Pinned in the audit's order: the tables first, then the topics' ends. Offsets of an earlier routing
configuration are judged by the one that the dead letters record for them. Beyond naive, and refused with
NotNaive: tables of another app under ours (`repair --adopt`), replays of dead letters, deletion vectors, a log
without its beginning.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any
from urllib.parse import quote, unquote

import deltalake
import pyarrow.dataset as ds
from kafka import KafkaConsumer, TopicPartition

from tests.support.naive_formats import Decisions, decisions
from tests.support.naive_record import (
    DEAD_LETTERS,
    EPOCH,
    HELD_US,
    US,
    Columns,
    Config,
    Message,
    comparable,
    same,
)
from tests.support.naive_record import Place as Belongs
from tests.support.naive_record import places as belongs
from tests.support.naive_rules import NOTHING_PLAIN, SIMPLE, Plain, rules_of
from tests.support.places import Place, place_of

TOMBSTONE = 2**63 - 1
KINDS = ("anchor", "sealed", "condemned", "skipped", "held", "rebased", "gap")
READ_SECS_MAX = 60.0
WHOLE_STAGES = ("size", "route", "condemned", "gap")
"""Stages of dead letters that are of a record as a whole."""
Partition = tuple[str, int]
At = tuple[str, int, int]
"""Topic, partition, offset."""
Span = tuple[int, int, int]
"""Epoch, and the offsets (after, through] that it covers."""


class NotNaive(Exception):
    """The lake has something that plain Python would judge wrongly."""


@dataclass(frozen=True)
class Lake:
    """What is to be compared. config: the routing configuration as JSON. compacted: records may vanish in between.

    types in config: [name, Spark schema JSON or DDL]. timed: every row must have its event time, as tables that no
    earlier version has filled do. plain: what a test knows of the SQL in config.
    """

    kafka: str
    topics: tuple[str, ...]
    pattern: str
    place: Place
    app: str
    config: Config
    compacted: bool = False
    timed: bool = True
    plain: Plain = NOTHING_PLAIN


@dataclass
class Table:
    """One table of the app. versions: txn appId without the app -> version. files: (path, size) of the live ones."""

    name: str
    columns: Columns
    properties: Mapping[str, str]
    table_id: str
    versions: Mapping[str, int]
    cut_by: Sequence[str] = ("day",)
    rows: list[dict[str, Any]] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)

    def spans(self, tp: Partition) -> list[Span]:
        """By epoch, since the topic of today began."""
        anchors, ends = self._by_epoch(tp, "anchor"), {**self._by_epoch(tp, "sealed"), **self._by_epoch(tp, "")}
        return [(e, anchors[e], ends[e]) for e in sorted(anchors) if e in ends and e >= self.since(tp)]

    def position(self, tp: Partition) -> int | None:
        live = self._by_epoch(tp, "")
        return live[max(live)] if live else None

    def since(self, tp: Partition) -> int:
        return max(self._by_epoch(tp, "rebased"), default=0)

    def poison(self, tp: Partition) -> int:
        offsets = [*self._by_epoch(tp, "condemned").values(), *self._by_epoch(tp, "skipped")]
        return max(offsets, default=-1)

    def _by_epoch(self, tp: Partition, kind: str) -> dict[int, int]:
        head = f"{kind}/{tp[0]}/{tp[1]}/" if kind else f"{tp[0]}/{tp[1]}/"
        found = {name.removeprefix(head): at for name, at in self.versions.items() if name.startswith(head)}
        return {int(epoch): at for epoch, at in found.items() if epoch.isdigit() and at != TOMBSTONE}


def lake_of(given: Any, compacted: bool = False, timed: bool = True, plain: Plain = NOTHING_PLAIN) -> Lake:
    """From a tests.support.lakes.Export, or exporter.settings.Settings read field by field."""
    if isinstance(given, Lake):
        return given
    settings = given.settings() if callable(getattr(given, "settings", None)) else given
    forms = {pattern: _form(settings, table) for pattern, table in settings.topic_formats.items()}
    config = {
        "type_from": {"kind": _kind(settings.type_from), "name": settings.type_from.name},
        "event_time": {**vars(settings.event_time), "kind": _kind(settings.event_time)},
        "types": sorted({**dict.fromkeys(settings.types, '{"fields":[]}'), **settings.declared}.items()),
        "value_format": _form(settings, settings.value_format),
        "topic_formats": [*forms.items()],
        "registry": settings.schema_registry.name,
        "event_time_min_us": (settings.event_time_min - EPOCH) // US,
        **{name: getattr(settings, name) for name in ("unknown_fields", "new_type", "isolation", "record_bytes_max")},
        "event_time_ahead_max_secs": settings.event_time_ahead_max_secs,
        **rules_of(settings),
    }
    names, pattern = tuple(settings.topics), settings.topics_pattern
    place = place_of(settings)
    return Lake(",".join(settings.brokers), names, pattern, place, settings.app, config, compacted, timed, plain)


def _kind(table: Any) -> str:
    """As it is stored: `field` is the newer name of what has always been `json` there."""
    return "json" if table.kind == "field" else str(table.kind)


def _form(settings: Any, table: Any) -> dict[str, Any]:
    files = [[file.name, settings.schemas[file]] for file in table.schema_files]
    names = ("kind", "envelope", "tombstones", "message")
    frame = table.framed(settings.schema_registry.frame)
    return {**{name: getattr(table, name) for name in names}, "frame": frame, "schemas": sorted(files)}


def findings(given: Any, compacted: bool = False, timed: bool = True, plain: Plain = NOTHING_PLAIN) -> list[str]:
    """One line per offset, file or table that is not as it must be, in the words of `exporter audit`; sorted.

    given: Export, Settings or Lake. compacted: a row whose record is gone is no finding. timed, plain: see Lake.
    """
    lake = lake_of(given, compacted, timed, plain)
    tables = {table.name: table for table in _tables(lake)}
    if not tables:
        return []
    if DEAD_LETTERS not in tables:
        return [f"table {DEAD_LETTERS} is gone: nothing can be said of what is missing"]
    starts, ends, messages = _read(lake)
    found = [line for table in tables.values() for line in table.absent]
    found += _tables_gone(tables) + _truncated(tables, ends)
    rows: dict[At | None, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    gaps, known = _gaps(tables, found), dict[str, Decisions]()
    for table in tables.values():
        for row in table.rows:
            _file(lake, table, row, set(ends), rows)
    found += [f"row without a record: {name} -: no offset" for name, _ in rows.pop(None, [])]
    for at in sorted({*rows, *messages}):
        held = rows.get(at, [])
        log = starts[at[:2]], ends[at[:2]]
        found += _judged(_Case(lake, tables, at, messages.get(at), held, gaps, *log, known))
    return sorted(found)


def assert_each_once(given: Any, compacted: bool = False, timed: bool = True, plain: Plain = NOTHING_PLAIN) -> None:
    """Every record that the positions cover is in its tables or in the dead letters, exactly once, or filtered."""
    found = findings(given, compacted, timed, plain)
    assert not found, "\n".join(found)


# --- the verdict on one offset ----------------------------------------------------------------


@dataclass(frozen=True)
class _Case:
    """One offset: the record if a consumer sees it, and (table, row) of all rows. start, end: of the log.

    known: what is recorded of the ids of registries, as far as it was asked for.
    """

    lake: Lake
    tables: Mapping[str, Table]
    at: At
    message: Message | None
    held: Sequence[tuple[str, dict[str, Any]]]
    gaps: Mapping[tuple[str, Partition], list[tuple[int, int]]]
    start: int
    end: int
    known: dict[str, Decisions]

    @property
    def tp(self) -> Partition:
        return self.at[:2]

    def covered(self, name: str) -> bool:
        table = self.tables.get(name)
        spans = table.spans(self.tp) if table else []
        return any(after < self.at[2] <= through for _, after, through in spans)

    def lost(self, name: str) -> bool:
        return any(first <= self.at[2] <= last for first, last in self.gaps.get((name, self.tp), []))

    def places(self) -> Sequence[Belongs] | None:
        """Where the record belongs; None if no configuration is known for the offset."""
        config = self.config()
        if self.message is None or config is None:
            return None
        registry = config.get("registry", "default")
        if registry not in self.known:
            self.known[registry] = decisions(self.lake.place, registry)
        columns = _columns(config, self.tables)
        return belongs(self.message, config, columns, self.known[registry], self.lake.plain)

    def config(self) -> Config | None:
        return _config(self.lake, self.tables[DEAD_LETTERS], self.tp, self.at[2])


def _judged(case: _Case) -> Iterator[str]:
    expected = case.places()
    if not (case.config() or {}).get("matches"):
        yield from _in_slot(case, case.held, expected[0] if expected else None)
        return
    by_slot: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for name, row in case.held:
        by_slot[_slot(case, name, row)].append((name, row))
    places = {one.slot: one for one in expected or ()}
    whole = by_slot.get("", [])
    lone = whole and whole[0][1]["stage"] != "condemned"
    where = f"{case.at[0]}-{case.at[1]}: {case.at[2]}"
    for slot in sorted({*by_slot, *places}):
        held = by_slot.get(slot, [])
        if slot and lone and held and case.message is not None:
            yield f"twice: {held[0][0]} {where} (also in {DEAD_LETTERS if len(held) == 1 else held[-1][0]})"
        elif expected and slot not in places and slot:
            yield f"in another table: {held[0][0]} {where} (expected in {max(one.table for one in expected)})"
        elif not slot and places and not places.get(""):
            others = len(by_slot) > 1 or whole[0][1]["stage"] == "condemned"
            good = Belongs((DEAD_LETTERS,)) if others or any(len(one.tables) != 1 for one in places.values()) else None
            yield from _in_slot(case, held, good or next(iter(places.values())))
        elif held or not whole:
            yield from _in_slot(case, held, places.get(slot))


def _slot(case: _Case, name: str, row: Mapping[str, Any]) -> str:
    """The type of which a row tells; empty if it is of the record as a whole."""
    if name != DEAD_LETTERS:
        return name
    told = row["event_type"] or ""
    return "" if row["stage"] in WHOLE_STAGES or told not in {one for one, _ in case.lake.config["types"]} else told


def _in_slot(case: _Case, rows: Sequence[tuple[str, dict[str, Any]]], expected: Belongs | None) -> Iterator[str]:
    topic, partition, offset = case.at
    held = sorted(rows, key=lambda one: (one[0] != DEAD_LETTERS, one[0]))
    names = [name for name, _ in held]
    where = f"{topic}-{partition}: {offset}"
    if len(held) > 1:
        yield f"twice: {names[0]} {where} (also in {names[-1]})"
        return
    if not held:
        if expected is not None and expected.tables and _owed(case, expected):
            yield f"missing: {expected.table} {where}"
        return
    [(name, row)] = held
    early = name == DEAD_LETTERS and offset <= case.tables[DEAD_LETTERS].poison(case.tp)
    if not case.covered(name) and not early:
        yield f"outside the table's position: {name} {where}"
    elif case.message is None:
        if case.start <= offset < case.end and not case.lake.compacted:
            yield f"row without a record: {name} {where}"
    elif expected is not None and name not in expected.tables and (name != DEAD_LETTERS or row["stage"] != "condemned"):
        if expected.tables:
            yield f"in another table: {name} {where} (expected in {expected.table})"
        else:
            yield f"in a table, but only to be counted: {name} {where}"
    elif expected is not None and _differs(case, expected, name, row):
        yield f"different values: {name} {where}"


def _owed(case: _Case, expected: Belongs) -> bool:
    """Whether a record without a row is a finding: the dead letters cover it, and so does its type if it has any."""
    if len(expected.tables) > 1 or case.lost(DEAD_LETTERS) or case.lost(expected.table):
        return False
    if not case.covered(DEAD_LETTERS):
        return False
    table = case.tables.get(expected.table)
    position = table.position(case.tp) if table else None
    return case.covered(expected.table) or position is None or case.at[2] <= position


def _differs(case: _Case, expected: Belongs, name: str, row: Mapping[str, Any]) -> bool:
    message = case.message
    assert message is not None
    if row.get("stage") == "condemned" and row["key"] is row["value"] is row["_kafka"]["timestamp"] is None:
        return False
    if not HELD_US[0] <= message.timestamp_us <= HELD_US[1]:
        kept = (row["_kafka"]["timestamp"], row["key"], row["value"], row["day"])
        return kept != (None, message.key, message.value, EPOCH.date())
    if row["_kafka"]["timestamp"] is None or (row["_kafka"]["timestamp"] - EPOCH) // US != message.timestamp_us:
        return True
    if name == DEAD_LETTERS:
        day = (EPOCH + timedelta(microseconds=message.timestamp_us)).date()
        kept = (row["key"], row["value"], row["day"]) == (message.key, message.value, day)
        return not (kept and row["stage"] and row["reason"])
    if len(expected.tables) > 1:
        return False
    kinds = case.tables[name].columns
    timed = kinds.get("_event_time") == "timestamp" and (case.lake.timed or row["_event_time"] is not None)
    if timed and row["_event_time"] != expected.at:
        return True
    fields = {c: value for c, value in (expected.fields or {}).items() if c in kinds and comparable(kinds[c])}
    cut_by = case.tables[name].cut_by
    fields = {c: _cutting(value) if c in cut_by else value for c, value in fields.items()}
    cut = {"day": expected.day}
    if expected.at is not None:
        cut |= {"hour": expected.at.hour, "month": f"{expected.at:%Y-%m}"}
    if expected.at is not None and case.tables[name].properties.get("exporter.partition_by") == "week":
        cut["week"] = expected.at.date() - timedelta(days=expected.at.weekday())
    if any(row[column] != cut[column] for column in cut_by if column in cut):
        return True
    return not all(same(kinds[c], row[c], value) for c, value in fields.items())


def _cutting(value: Any) -> Any:
    """What a column has that cuts its table: no text that readers take for null, nor one that no folder can be called.
    """
    if not isinstance(value, str):
        return value
    called = value not in ("", "__HIVE_DEFAULT_PARTITION__") and "\0" not in value
    return value if called and len(quote(value, safe="")) <= 200 else None


# --- configurations ----------------------------------------------------------------------------


def _config(lake: Lake, dead_letters: Table, tp: Partition, offset: int) -> Config | None:
    """The configuration in force at an offset: the settings' for the last epoch, else what is recorded."""
    spans = dead_letters.spans(tp)
    if not spans or offset > spans[-1][1]:
        return lake.config
    epoch = next((epoch for epoch, after, through in spans if after < offset <= through), None)
    history = json.loads(dead_letters.properties.get(f"exporter.routing.{tp[0]}-{tp[1]}", "{}"))
    text = dead_letters.properties.get(f"exporter.config.{history.get(str(epoch))}")
    return json.loads(text) if text else None


def _columns(config: Config, tables: Mapping[str, Table]) -> dict[str, Columns]:
    """Declared type -> its columns; their Spark types from the configuration, or where it is DDL from the table."""
    found: dict[str, Columns] = {}
    for name, text in config["types"]:
        if text.startswith("{"):
            found[name] = {one["name"]: one["type"] for one in json.loads(text)["fields"]}
        else:
            known = tables[name].columns if name in tables else {}
            kinds = ddl_kinds(text).items() if text else ()
            found[name] = {column: SIMPLE.get(kind.upper()) or known.get(column) for column, kind in kinds}
    return found


@cache
def ddl_kinds(ddl: str) -> Mapping[str, str]:
    """Column -> type of a Spark DDL: 'id BIGINT, at STRUCT<x: INT, y: INT>' -> BIGINT, STRUCT<x: INT, y: INT>."""
    found, depth, start = {}, 0, 0
    for index, char in enumerate(ddl + ","):
        depth += (char in "<(") - (char in ">)")
        if char == "," and not depth:
            name, kind = ddl[start:index].strip().split(maxsplit=1)
            found[name.strip("`")] = kind.strip()
            start = index + 1
    return found


# --- the tables ---------------------------------------------------------------------------------


def _tables(lake: Lake) -> Iterator[Table]:
    """The dead letters last, so that every table they speak of is seen."""
    paths = [file.path.split("/") for file in lake.place.files() if "/_delta_log/" in file.path]
    folders = {path[0] for path in paths if path[1] == "_delta_log"}
    for folder in sorted(folders, key=lambda name: (name == DEAD_LETTERS, name)):
        opened = deltalake.DeltaTable(f"{lake.place.delta_root}/{folder}", storage_options=lake.place.delta_options)
        metadata = opened.metadata()
        if metadata.configuration.get("exporter.app") == lake.app:
            yield _table(lake, folder, opened, metadata)


def _table(lake: Lake, folder: str, opened: Any, metadata: Any) -> Table:
    raw = re.sub("~([0-9A-F]{2})", r"%\1", folder)
    columns = {one["name"]: one["type"] for one in json.loads(opened.schema().to_json())["fields"]}
    versions, sizes = _log(lake.place, folder, opened.version())
    head = f"{lake.app}/"
    if any(not app_id.startswith(head) and app_id.count("/") in (3, 4, 5) for app_id in versions):
        others = sorted(app_id for app_id in versions if not app_id.startswith(head))
        raise NotNaive(f"{folder} has positions of another app: {others}")
    ours = {app_id.removeprefix(head): at for app_id, at in versions.items()}
    if any(app_id.startswith("replay/") for app_id in ours):
        raise NotNaive(f"{folder} holds dead letters that were replayed under a later configuration")
    table = Table(unquote(raw), columns, metadata.configuration, metadata.id, ours, metadata.partition_columns)
    whole = opened.to_pyarrow_dataset()
    there = {file.path.removeprefix(f"{folder}/"): file.bytes for file in lake.place.files(folder)}
    present = []
    for fragment in whole.get_fragments():
        path = fragment.path.lstrip("/")
        size = there.get(path)
        if size == sizes[path]:
            present.append(fragment)
        else:
            table.absent.append(f"live file {'absent' if size is None else 'another size'}: {table.name}/{path}")
    dataset = ds.FileSystemDataset(present, whole.schema, whole.format, whole.filesystem)
    table.rows = dataset.to_table(use_threads=False).to_pylist()
    return table


def _log(place: Place, folder: str, version: int) -> tuple[dict[str, int], dict[str, int]]:
    """The transactions, and the size of every file ever added, line by line."""
    versions: dict[str, int] = {}
    sizes: dict[str, int] = {}
    entries = {file.name: file for file in place.files(f"{folder}/_delta_log")}
    for number in range(version + 1):
        file = entries.get(f"{number:020d}.json")
        if file is None:
            raise NotNaive(f"version {number} of {folder} is not there any more")
        for line in place.read(file).decode("utf-8").splitlines():
            action = json.loads(line)
            if "txn" in action:
                versions[action["txn"]["appId"]] = action["txn"]["version"]
            elif "add" in action:
                if action["add"].get("deletionVector"):
                    raise NotNaive(f"version {number} of {folder} has a deletion vector")
                sizes[unquote(action["add"]["path"])] = action["add"]["size"]
    return versions, sizes


def _file(lake: Lake, table: Table, row: dict[str, Any], tps: set[Partition], rows: Any) -> None:
    """Put a row where it belongs; those of other topics, of former topics and of gaps are let be."""
    kafka = row["_kafka"] or {}
    at = (kafka.get("topic"), kafka.get("partition"), kafka.get("offset"))
    if None in at:
        if table.name != DEAD_LETTERS:
            rows[None].append((table.name, row))
    elif at[:2] in tps and (kafka["epoch"] or 0) >= table.since(at[:2]):
        rows[at].append((table.name, row))


def _gaps(tables: Mapping[str, Table], found: list[str]) -> dict[tuple[str, Partition], list[tuple[int, int]]]:
    """(event type, partition) -> first and last offset of each recorded gap; one that is there twice is a finding."""
    gaps: dict[tuple[str, Partition], list[tuple[int, int]]] = defaultdict(list)
    by_epoch: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for row in tables[DEAD_LETTERS].rows:
        if row["stage"] == "gap" and row["_kafka"]["offset"] is None:
            tp = (row["_kafka"]["topic"], row["_kafka"]["partition"])
            epoch, lost = row["_kafka"]["epoch"], (row["first_offset"], row["last_offset"])
            if epoch >= tables[DEAD_LETTERS].since(tp):
                gaps[row["event_type"], tp].append(lost)
                by_epoch[row["event_type"], tp, epoch].append(lost)
    for (name, tp, _), ranges in by_epoch.items():
        for (first, last), (other, _) in itertools.pairwise(sorted(ranges)):
            if other <= last:
                found.append(f"the gap {first}..{last} of table {name}, {tp[0]}-{tp[1]} is recorded twice")
    return gaps


def _tables_gone(tables: Mapping[str, Table]) -> list[str]:
    """The dead letters list every table by its id."""
    ids = {re.sub("[^A-Za-z0-9_-]", _escaped, name): table.table_id for name, table in tables.items()}
    listed = {
        prop.removeprefix("exporter.table."): one
        for prop, one in tables[DEAD_LETTERS].properties.items()
        if prop.startswith("exporter.table.")
    }
    return [
        f"table {folder} {'was replaced' if folder in ids else 'is gone'}"
        for folder, one in listed.items()
        if ids.get(folder) != one
    ]


def _escaped(char: re.Match[str]) -> str:
    return "".join(f"~{byte:02X}" for byte in char[0].encode())


def _truncated(tables: Mapping[str, Table], ends: Mapping[Partition, int]) -> list[str]:
    """A position at or above the log's end: records were taken off it."""
    lines = []
    for tp, end in ends.items():
        at = max((p for table in tables.values() if (p := table.position(tp)) is not None), default=-1)
        if at >= end:
            lines.append(f"{tp[0]}-{tp[1]}: the tables are at {at}, the log ends at {end}: it was truncated")
    return lines


# --- the topics ----------------------------------------------------------------------------------


_consumers: dict[tuple[str, str], KafkaConsumer] = {}
"""By address and isolation, one for all readings: connecting takes longer than a small topic."""


def _consumer(kafka: str, isolation: str) -> KafkaConsumer:
    if (kafka, isolation) not in _consumers:
        _consumers[kafka, isolation] = KafkaConsumer(
            bootstrap_servers=kafka,
            isolation_level=isolation,
            enable_auto_commit=False,
            fetch_max_wait_ms=20,
            max_poll_records=10_000,
            metadata_max_age_ms=1_000,
        )
    return _consumers[kafka, isolation]


def disconnect() -> None:
    """Before the brokers end: their clients would look for them for ever."""
    while _consumers:
        _consumers.popitem()[1].close()


def _read(lake: Lake) -> tuple[dict[Partition, int], dict[Partition, int], dict[At, Message]]:
    """Log starts, ends, and every record in between that a consumer of this isolation sees."""
    consumer = _consumer(lake.kafka, lake.config["isolation"])
    there = consumer.topics()  # also brings what is known of their partitions up to date
    names = lake.topics or sorted(t for t in there if re.fullmatch(lake.pattern, t))
    tps = [TopicPartition(t, p) for t in names for p in sorted(consumer.partitions_for_topic(t) or ())]
    starts, ends = consumer.beginning_offsets(tps), consumer.end_offsets(tps)
    consumer.assign(tps)
    messages: dict[At, Message] = {}
    for tp in tps:
        consumer.seek(tp, starts[tp])
    left = {tp for tp in tps if starts[tp] < ends[tp]}
    quiet = 0
    while left:
        polled = consumer.poll(timeout_ms=500)
        for tp, some in polled.items():
            for one in some:
                if one.offset < ends[tp]:
                    at = (tp.topic, tp.partition, one.offset)
                    messages[at] = Message(*at, one.key, one.value, one.headers, one.timestamp * 1_000)
        left = {tp for tp in left if consumer.position(tp) < ends[tp]}
        quiet = 0 if polled else quiet + 1
        if quiet > READ_SECS_MAX * 2:
            raise TimeoutError(f"{left} are not read to {ends}")
    return (
        {(tp.topic, tp.partition): at for tp, at in starts.items()},
        {(tp.topic, tp.partition): at for tp, at in ends.items()},
        messages,
    )
