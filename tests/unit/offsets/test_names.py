"""Stored names: what is built parses back, nothing else parses, and what was stored once is read for ever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timezone
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from offsets.names import (
    FOLDER_BYTES_MAX,
    KINDS,
    AppId,
    BadName,
    DataFile,
    case_clash,
    event_type_of,
    gap_file,
    offer_file,
    replay_attempt,
    table_folder,
)
from offsets.partitions import NULL, Spec
from offsets.ranges import TopicPartition
from tests.support.days import partition_of

OFFSET_MAX = 2**63 - 1
unhurried = settings(deadline=None)
LETTERS = "ABZabz019-"
apps = st.text(LETTERS + "_", min_size=1, max_size=12)
topics = st.one_of(
    st.text(LETTERS + "._", min_size=1, max_size=30),
    st.sampled_from(["x" * 249, "." * 249]),
    st.sampled_from([".", "..", "a.b.0.0", "0", "anchor", "sealed", "x.parquet", "t.3.0.00000000000000000001"]),
)
partitions = st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1))
epochs = st.integers(0, 2**31 - 1)
kinds = st.sampled_from([None, *KINDS])
event_types = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
gap_types = st.one_of(st.sampled_from(["gap", "anchor", "0", "a/b", "..", "~2F"]), st.text(max_size=20, min_size=1))
app_ids = st.one_of(
    st.builds(AppId, apps, partitions, epochs, kinds),
    st.builds(AppId, apps, partitions, epochs, st.just("gap"), gap_types.filter(lambda name: name.isprintable())),
)
attempts = st.one_of(st.uuids().map(str), st.text(LETTERS, min_size=1, max_size=8))
days = st.dates().map(partition_of)
data_files = st.builds(DataFile, days, apps, partitions, epochs, st.integers(0, OFFSET_MAX), attempts)

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
STORED_FILES = {
    f"day=2026-11-01/exporter.orders.0.0.00000000000000000041.{UUID}.parquet": DataFile(
        partition_of(date(2026, 11, 1)), "exporter", TopicPartition("orders", 0), 0, 41, UUID
    ),
    f"day=1999-02-28/my_app-2.eu.orders.v1.12.3.09223372036854775807.{UUID}.parquet": DataFile(
        partition_of(date(1999, 2, 28)), "my_app-2", TopicPartition("eu.orders.v1", 12), 3, OFFSET_MAX, UUID
    ),
    "day=2024-02-29/a.0.1.2.3.00000000000000000000.7.parquet": DataFile(
        partition_of(date(2024, 2, 29)), "a", TopicPartition("0.1", 2), 3, 0, "7"
    ),
    "day=2026-11-01/exporter.orders.0.0.00000000000000000041.replay-12-0f3c.parquet": DataFile(
        partition_of(date(2026, 11, 1)), "exporter", TopicPartition("orders", 0), 0, 41, "replay-12-0f3c"
    ),
    **{
        f"{folder}exporter.orders.0.0.00000000000000000041.{UUID}.parquet": DataFile(
            spec.at(datetime(2026, 11, 1, 7, tzinfo=timezone.utc), texts), "exporter", TopicPartition("orders", 0), 0,
            41, UUID,
        )
        for folder, spec, texts in (
            ("day=2026-11-01/hour=7/", Spec("hour"), ()),
            ("month=2026-11/", Spec("month"), ()),
            ("", Spec("none"), ()),
            ("day=2026-11-01/country=DE/", Spec("day", ("country",)), ("DE",)),
            ("day=2026-11-01/hour=7/country=__HIVE_DEFAULT_PARTITION__/n=-5/", Spec("hour", ("country", "n")),
             (None, "-5")),
            ("month=2026-11/city=S%C3%A3o%20Paulo%2FSP/ok=true/", Spec("month", ("city", "ok")),
             ("São Paulo/SP", "true")),
            ("on=2026-11-01/", Spec("none", ("on",)), ("2026-11-01",)),
        )
    },
}
STORED_APP_IDS = {
    "exporter/orders/0/0": AppId("exporter", TopicPartition("orders", 0), 0),
    "my_app-2/eu.orders.v1/12/3": AppId("my_app-2", TopicPartition("eu.orders.v1", 12), 3),
    "exporter/anchor/orders/0/1": AppId("exporter", TopicPartition("orders", 0), 1, "anchor"),
    "exporter/sealed/orders/0/1": AppId("exporter", TopicPartition("orders", 0), 1, "sealed"),
    "exporter/gap/order/eu.orders.v1/0/1": AppId(
        "exporter", TopicPartition("eu.orders.v1", 0), 1, "gap", "order"
    ),
    "exporter/gap/order~2Eplaced~2F1/orders/12/0": AppId(
        "exporter", TopicPartition("orders", 12), 0, "gap", "order.placed/1"
    ),
    "exporter/gap/dead_letters/orders/0/0": AppId("exporter", TopicPartition("orders", 0), 0, "gap", "dead_letters"),
    "exporter/replay/eu.orders.v1/0/12": AppId("exporter", TopicPartition("eu.orders.v1", 0), 12, "replay"),
    "exporter/condemned/orders/0/1": AppId("exporter", TopicPartition("orders", 0), 1, "condemned"),
    "exporter/skipped/eu.orders.v1/0/41": AppId("exporter", TopicPartition("eu.orders.v1", 0), 41, "skipped"),
    "exporter/held/orders/12/0": AppId("exporter", TopicPartition("orders", 12), 0, "held"),
    "exporter/gap/0/1": AppId("exporter", TopicPartition("gap", 0), 1),
    "exporter/anchor/0/1": AppId("exporter", TopicPartition("anchor", 0), 1),
}
STORED_FOLDERS = {
    "OrderPlaced": "OrderPlaced",
    "order_placed-v2": "order_placed-v2",
    "order.placed": "order~2Eplaced",
    "../etc": "~2E~2E~2Fetc",
    "100%": "100~25",
    "~": "~7E",
    "a b": "a~20b",
    "Bestellungäöü": "Bestellung~C3~A4~C3~B6~C3~BC",
    "日": "~E6~97~A5",
    "day=2026-11-01": "day~3D2026-11-01",
}


@pytest.mark.parametrize("path", STORED_FILES)
def test_file_names_stored_so_far_are_read_for_ever(path):
    """Literal names that tables hold; if this fails, existing tables cannot be read (traps 22)."""
    assert DataFile.parse(path) == STORED_FILES[path]
    assert str(STORED_FILES[path]) == path


@pytest.mark.parametrize("text", STORED_APP_IDS)
def test_app_ids_stored_so_far_are_read_for_ever(text):
    """Literal appIds that tables hold; if this fails, all positions are lost (traps 22)."""
    assert AppId.parse(text) == STORED_APP_IDS[text]
    assert str(STORED_APP_IDS[text]) == text


@pytest.mark.parametrize("event_type", STORED_FOLDERS)
def test_folders_stored_so_far_are_read_for_ever(event_type):
    """Literal folders of tables; if this fails, a type's table would be created anew beside the old one."""
    assert table_folder(event_type) == STORED_FOLDERS[event_type]
    assert event_type_of(STORED_FOLDERS[event_type]) == event_type


@pytest.mark.parametrize(
    "attempt, number",
    [("replay-1-0f", 1), ("replay-12-0f", 12), (UUID, None), ("replay-0-0f", None), ("replay-01-0f", None),
     ("replay-1", None), ("replay-0f3c", None), ("a-replay-1-0f", None)],
)  # fmt: skip
def test_a_replays_file_bears_its_number(attempt, number):
    """And no other attempt looks like one; what is built is read back."""
    assert DataFile(partition_of(date(2026, 11, 1)), "app", TopicPartition("t", 0), 0, 41, attempt).replay == number
    assert number is None or replay_attempt(number, "0f") == attempt


def test_what_an_offer_holds_is_beside_the_data_and_hidden():
    """Readers and VACUUM pass over what begins with `_`."""
    assert offer_file("0f") == "_exporter/offers/0f.json"


@unhurried
@given(data_files)
def test_every_legal_file_name_parses_back(name):
    """NAMES: parse(build(x)) = x for any app, topic (dots, too), partition, epoch, offset, attempt and day."""
    assert DataFile.parse(str(name)) == name


@unhurried
@given(app_ids)
def test_every_legal_app_id_parses_back(app_id):
    """NAMES: parse(build(x)) = x, for positions and for what else a table remembers."""
    assert AppId.parse(str(app_id)) == app_id


@unhurried
@given(days, apps, partitions, epochs, attempts)
def test_a_file_of_gap_rows_never_passes_for_a_data_file(day, app, tp, epoch, attempt):
    """It bears no offset: neither the sweep nor start-up may draw a conclusion from it."""
    path = gap_file(day, app, tp, epoch, attempt)
    assert f".gap.{attempt}." in path
    with pytest.raises(BadName):
        DataFile.parse(path)


@unhurried
@given(event_types)
def test_every_legal_event_type_comes_back_from_its_folder(event_type):
    """NAMES: the folder alone tells the event type, byte for byte."""
    assume(sum(1 if byte < 128 and chr(byte).isalnum() else 3 for byte in event_type.encode()) <= FOLDER_BYTES_MAX)
    assert event_type_of(table_folder(event_type)) == event_type


@unhurried
@given(data_files, data_files)
def test_two_files_never_share_a_name(left, right):
    """NAMES: equal text means equal file."""
    assert (str(left) == str(right)) == (left == right)


@unhurried
@given(*[st.builds(AppId, st.sampled_from(["a", "anchor"]), partitions, st.integers(0, 3), kinds)] * 2)
def test_two_app_ids_never_share_a_text(left, right):
    """NAMES: equal text means equal appId; an app or topic called like a kind does not blur it (traps 10)."""
    assert (str(left) == str(right)) == (left == right)


@unhurried
@given(st.integers(0, OFFSET_MAX), st.integers(0, OFFSET_MAX))
def test_names_of_one_writer_sort_by_their_offsets(left, right):
    """Zero-padding makes the order of names the order of last offsets, for people who list a folder."""
    day, tp = partition_of(date(2026, 1, 1)), TopicPartition("t", 0)
    names = [str(DataFile(day, "a", tp, 0, last, "x")) for last in (left, right)]
    assert (names[0] < names[1]) == (left < right)


@pytest.mark.parametrize(
    "event_type",
    [
        "..",
        "../../etc/passwd",
        "/usr",
        "a/b",
        "a\\b",
        ".",
        "_delta_log/x",
        "%2e%2e%2f",
        "UPPER",
        "日本",
        "a\x00b",
        "\n",
        "~2E~2E",
        " ",
        "day=2026-01-01",
        "x" * FOLDER_BYTES_MAX,
        "https://host/x",
        "🦊",
    ],
)
def test_a_hostile_event_type_stays_one_folder_of_plain_bytes(event_type):
    """No event type leaves its folder: no separator, dot, percent sign, space or control byte survives."""
    folder = table_folder(event_type)
    assert set(folder) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-~")
    assert 0 < len(folder) <= FOLDER_BYTES_MAX
    assert event_type_of(folder) == event_type


@unhurried
@given(event_types)
def test_any_event_type_either_stays_in_its_folder_or_is_refused(event_type):
    """Whatever a record calls itself, the folder has no separators and no dots, or BadName is raised."""
    try:
        folder = table_folder(event_type)
    except BadName:
        assert len(event_type.encode()) > FOLDER_BYTES_MAX // 3
        return
    assert folder.isascii()
    assert not set(folder) & set("/\\.%: \t\r\n\x00")


@pytest.mark.parametrize("kinds", [("Order", "order"), ("a", "B", "b"), ("dead_letters", "Dead_Letters")])
def test_event_types_that_differ_by_case_only_clash(kinds):
    """Two such folders are one folder on some file systems."""
    assert case_clash(kinds) == kinds[-2:]


def test_event_types_that_differ_by_more_than_case_do_not_clash():
    """Escapes differ in their digits, never by case: ä and Ä are two folders everywhere."""
    assert case_clash(("order", "order_", "ä", "Ä")) is None


GOOD = f"day=2026-11-01/exporter.orders.0.0.00000000000000000041.{UUID}.parquet"
LEGAL = DataFile(partition_of(date(2026, 1, 1)), "a", TopicPartition("t", 0), 0, 1, "x")


def file(**changes: Any) -> DataFile:
    return replace(LEGAL, **changes)


def app_id(app: str, topic: str, partition: int, epoch: int, *more: Any) -> AppId:
    return AppId(app, TopicPartition(topic, partition), epoch, *more)


REFUSED: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "an attempt of a replay that could not be read back": (
        lambda given: replay_attempt(*given), [(0, "0f"), (-1, "0f"), (1, ""), (1, "a-b"), (1, "a.b")]
    ),
    "an id of an offer that leads elsewhere": (offer_file, ["", "../0f", "a/b", "a" * 65, "a\n"]),
    "an event type beside what is no gap, or a gap without one": (
        lambda given: app_id("app", "t", 0, 0, *given), [("gap", ""), ("sealed", "order"), (None, "order")]
    ),
    "an event type that is empty, or longer as a folder than a file system takes": (
        table_folder, ["", "x" * 300, "x" * (FOLDER_BYTES_MAX + 1), "日" * 23]
    ),
    "half a surrogate pair, which JSON can spell, and which has no bytes": (table_folder, ["a\ud800"]),
    "a folder that is none of ours, also one that spells a plain byte as ~41": (
        event_type_of,
        ["", "~", "~2", "~2e", "~zz", "a.b", "a b", "~41", "~C3", "~FF", "ä", "_delta_log/", "../x", "~2E/", "x" * 201],
    ),
    "a path of Spark's own, or of another layout": (
        DataFile.parse, ["", "day=2026-11-01/", "day=2026-11-01/part-00000-0f8fad5b-c000.snappy.parquet"]
    ),
    "a path that is absolute, or has more at its end": (
        DataFile.parse, [GOOD + "\n", "/" + GOOD, "x/" + GOOD, "s3://bucket/" + GOOD]
    ),
    "a path that is nearly one of ours": (
        lambda change: DataFile.parse(GOOD.replace(*change)),
        [
            ("day=", "da-te="), *(("2026-11-01", day) for day in ("2026-11-31", "20261101", "2026-W44-7", NULL)),
            *((".0.0.", numbers) for numbers in (".0.", ".00.0.", ".0.07.", ".-1.0.")),
            *(("00000000000000000041", last) for last in ("41", f"{0:019}x", "+0000000000000000041", f"{0:019}٣")),
            (".parquet", ".parquet.crc"), (".parquet", ""), ("exporter.", ""), ("exporter.", "."),
            ("orders", "ord ers"), ("orders", "ord%2Fers"), ("orders", ""), (UUID, "a_b"), (UUID, ""),
        ],
    ),
    "a path with a partition or epoch that only begins well": (
        lambda numbers: DataFile.parse(GOOD.replace(".0.0.", numbers)),
        [text for bad in ("0x", "0abc", "0 b") for text in (f".{bad}.0.", f".0.{bad}.")],
    ),
    "an appId of another writer, of an unknown kind, or nearly one of ours": (
        AppId.parse,
        [
            "", "/", "exporter", "exporter/orders/0", "exporter/orders/0/0/", "/exporter/orders/0/0", "exporter//0/0",
            "exporter/other/orders/0/0", "exporter/gone/orders/0/0/0", "ex.porter/orders/0/0", "exporter/ord ers/0/0",
            "exporter/orders/-1/0", "exporter/orders/1x/0", "exporter/orders/0/+1", "exporter/orders/٣/0",
            "exporter/orders/1.0/0", "exporter/Anchor/orders/0/0", "exporter/gap/orders/0/0",
            "exporter/gap//orders/0/0", "exporter/gap/a.b/orders/0/0", "exporter/gap/a~2eb/orders/0/0",
            "exporter/anchor/order/orders/0/0", "exporter/orders//0", "exporter/orders/0/10\n",
        ],
    ),
    "an appId with a number of which there is another text, so that a foreign txn cannot stop the exporter": (
        AppId.parse, [f"e/t/{bad}" for bad in ("00/0", "007/0", "0/01", "0x/0", "0/0 ", "0_1/0", "0/0\n")]
    ),
    "an appId with more digits than Python reads": (AppId.parse, [f"e/t/{'9' * 5000}/0"]),
    "a part of a file that could not be parsed back": (
        lambda changes: file(**changes),
        [
            *({"app": app} for app in ("", "a.b", "a/b", "a\n")), *({"attempt": text} for text in ("", "a.b", "../x")),
            *({"tp": TopicPartition(topic, 0)} for topic in ("", "a/b", "x" * 250)), {"tp": TopicPartition("t", -1)},
            {"epoch": -1}, {"last_offset": -1},
        ],
    ),
    "a part of an appId that could not be parsed back": (
        lambda given: app_id(*given),
        [("a/b", "t", 0, 0), ("", "t", 0, 0), ("a", "", 0, 0), ("a", "t/u", 0, 0), ("a", "t", -1, 0),
         ("a", "t", 0, -1)],
    ),
}  # fmt: skip
"""What is refused -> what refuses it, and of what."""


@pytest.mark.parametrize(
    ("make", "given"),
    [pytest.param(make, one, id=f"{what}: {one!r:.40}") for what, (make, all_) in REFUSED.items() for one in all_],
)
def test_what_is_no_name_of_ours_is_neither_read_nor_built(make: Callable[..., Any], given: Any) -> None:
    """NAMES is kept at the source: BadName, never another error, and before anything is written."""
    with pytest.raises(BadName):
        make(given)


@unhurried
@given(st.text(max_size=80))
def test_random_text_is_refused_or_is_exactly_what_we_build(text):
    """Parsing never accepts a second spelling and never raises anything but BadName."""
    for parse in (AppId.parse, DataFile.parse):
        try:
            assert str(parse(text)) == text
        except BadName:
            continue


@unhurried
@given(data_files, st.data())
def test_a_file_name_with_one_byte_changed_is_refused_or_is_another_file(name, data):
    """No near miss is taken for the file itself."""
    text = str(name)
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + data.draw(st.sampled_from("0.x/-= ~%é")) + text[at + 1 :]
    assume(changed != text)
    try:
        other = DataFile.parse(changed)
    except BadName:
        return
    assert other != name
    assert str(other) == changed
