"""A table's state from the files of its log, and where these do not tell enough for it."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from exporter.lake import log_files
from exporter.stores.file import FileStore
from exporter.stores.memory import MemoryStore
from offsets.table_log import TableView


def entry(folder: Path, version: int) -> Path:
    return folder / log_files.entry(version)


def newest_version(folder: Path) -> int | None:
    return log_files.newest_version(FileStore(str(folder)))


def newest_view(folder: Path) -> TableView | None:
    return log_files.newest_view(FileStore(str(folder)))


def view_at(folder: Path, version: int) -> TableView | None:
    return log_files.view_at(FileStore(str(folder)), version)


METADATA = {"id": "t", "schemaString": "{}", "partitionColumns": ["day"], "configuration": {"k": "v"}}
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
CREATED = [{"metaData": METADATA}, {"protocol": PROTOCOL}]


def made_by(version: int) -> dict[str, str]:
    """The transaction that makes a version, as its entry and its checksum name it."""
    return {"txnId": f"of {version}"}


def txn(version: int) -> dict[str, Any]:
    return {"appId": "a/t/0/0", "version": version}


def written(folder: Path, versions: int, **other: Mapping[str, Any]) -> Path:
    """A log whose version n says that the position is n; other: names of further files and what they hold."""
    for version in range(versions):
        path = entry(folder, version)
        path.parent.mkdir(parents=True, exist_ok=True)
        actions = [{"commitInfo": made_by(version)}, *(CREATED if not version else []), {"txn": txn(version)}]
        path.write_text("".join(json.dumps(action) + "\n" for action in actions))
    for name, holds in other.items():
        (folder / "_delta_log" / name).write_text(json.dumps(holds))
    return folder


class Out(MemoryStore):
    """Answers no question about one kind of name; counts them."""

    asked: ClassVar[list[str]] = []

    def names(self, folder: str = "", after: str = "") -> list[str]:
        self.asked.append(folder)
        raise OSError(errno.EIO, "no answer")

    def read(self, path: str) -> bytes:
        self.asked.append(path)
        raise OSError(errno.EIO, "no answer")


def test_a_storage_that_does_not_answer_is_asked_once() -> None:
    """Each question may take a minute, and a table has fifty checksums that could tell; nor would Delta know more."""
    out = Out("memory://out/order")
    Out.asked.clear()
    with pytest.raises(OSError, match="no answer"):
        log_files.newest_view(out)
    with pytest.raises(OSError, match="no answer"):
        log_files.view_at(out, 100)
    assert len(Out.asked) == 2


def digits(version: int) -> str:
    return f"{version:020d}"


@pytest.mark.parametrize(
    "gone, others, newest",
    [
        ([], [], 4),
        ([2], [], None),
        ([0], [], None),
        ([4], [], 3),
        ([0, 1], [digits(1) + ".checkpoint.parquet"], 4),
        ([0, 1, 2], [digits(1) + ".checkpoint.parquet"], None),
        ([0, 1, 2, 3], [digits(4) + ".checkpoint.0000000001.0000000002.parquet"], 4),
        ([0, 1, 2, 3, 4], [digits(4) + ".checkpoint.parquet"], None),
        ([4], [digits(4) + ".checkpoint.11111111-1111-1111-1111-111111111111.json"], None),
        ([], [digits(7) + ".crc", digits(3) + "." + digits(4) + ".compacted.json", "x.json", digits(9) + ".tmp"], 4),
        ([], ["." + digits(5) + ".json.tmp", "_last_checkpoint", digits(5) + ".json.x"], 4),
        ([0, 1, 2, 3, 4], [], None),
    ],
)
def test_the_newest_version_is_known_where_no_commit_since_a_checkpoint_is_missing(
    tmp_path: Path, gone: list[int], others: list[str], newest: int | None
) -> None:
    """Whatever else stands in the folder; a checkpoint alone is no commit."""
    written(tmp_path, 5, **{name: {} for name in others})
    for version in gone:
        entry(tmp_path, version).unlink()
    assert newest_version(tmp_path) == newest


class Listed(FileStore):
    """A store that notes from which name on it is listed."""

    asked: ClassVar[list[str]] = []

    def names(self, folder: str = "", after: str = "") -> list[str]:
        self.asked.append(after)
        return super().names(folder, after)


PARQUET = ".checkpoint.parquet"
V2 = ".checkpoint.11111111-1111-1111-1111-111111111111.json"


@pytest.mark.parametrize(
    "hint, checkpoints, gone, newest, lists",
    [
        ('{"version": 3, "size": 9}', [digits(3) + PARQUET], [0, 1], 5, ["3"]),
        ('{"version": 3}', [digits(3) + V2], [0, 1, 2], 5, ["3"]),
        ('{"version": 3}', [digits(3) + ".checkpoint.0000000001.0000000002.parquet"], [], 5, ["3"]),
        ('{"version": 1}', [digits(1) + PARQUET, digits(4) + PARQUET], [0, 2], 5, ["1"]),
        ('{"version": 1}', [digits(1) + PARQUET], [0, 3], None, ["1"]),
        ('{"version": 3}', [], [], 5, ["3", ""]),
        ('{"version": 3}', [digits(2) + PARQUET], [0], 5, ["3", ""]),
        ('{"version": 77}', [], [], 5, ["77", ""]),
        ('{"version": 77}', [digits(77) + PARQUET], [], None, ["77"]),
        ('{"version": 3', [digits(3) + PARQUET], [0], 5, [""]),
        ("", [digits(3) + PARQUET], [0], 5, [""]),
        (None, [digits(3) + PARQUET], [0], 5, [""]),
        ('{"version": "3"}', [digits(3) + PARQUET], [0], 5, [""]),
        ('{"version": -1}', [], [], 5, [""]),
        ("[3]", [digits(3) + PARQUET], [0, 4], None, [""]),
    ],
)
def test_a_log_is_listed_from_the_checkpoint_on_that_it_calls_its_newest(
    tmp_path: Path, hint: str | None, checkpoints: list[str], gone: list[int], newest: int | None, lists: list[str]
) -> None:
    """Where that is missing, cut short or gone, as a whole; what is found is the same either way."""
    written(tmp_path, 6, **{name: {} for name in checkpoints})
    for version in gone:
        entry(tmp_path, version).unlink()
    assert newest_version(tmp_path) == newest
    if hint is not None:
        (tmp_path / "_delta_log" / "_last_checkpoint").write_text(hint)
    Listed.asked.clear()
    assert log_files.newest_version(Listed(str(tmp_path))) == newest
    assert Listed.asked == [f"{int(one):020d}." if one else "" for one in lists]


def test_no_log_is_no_version(tmp_path: Path) -> None:
    """Whether that is no table or no answer of the storage is for Delta to say."""
    assert newest_version(tmp_path / "none") is None and newest_view(tmp_path / "none") is None


def test_a_version_is_its_checksum_or_an_earlier_one_and_the_commits_since(tmp_path: Path) -> None:
    """One that tells no transactions is passed over: its writer may have left them out."""
    body = {**made_by(2), "metadata": {**METADATA, "configuration": {"of": "2"}}, "protocol": PROTOCOL}
    written(tmp_path, 5, **{digits(2) + ".crc": {**body, "setTransactions": [txn(2), {"appId": "x", "version": 9}]}})
    view = newest_view(tmp_path)
    assert view is not None and view.version == 4 and view.transactions == {"a/t/0/0": 4, "x": 9}
    assert view.properties == {"of": "2"} and view.table_id == "t" and view.partition_columns == ("day",)
    at_two = view_at(tmp_path, 2)
    assert at_two is not None and at_two.transactions == {"a/t/0/0": 2, "x": 9}
    for useless in ({**body, "setTransactions": []}, body, []):
        (tmp_path / "_delta_log" / (digits(2) + ".crc")).write_text(json.dumps(useless))
        view = newest_view(tmp_path)
        assert view is not None and view.transactions == {"a/t/0/0": 4} and view.properties == {"k": "v"}


@pytest.mark.parametrize(
    "checksum_of, entry_of", [({"txnId": "another"}, made_by(4)), ({}, made_by(4)), (made_by(4), {}), ({}, {})]
)
def test_a_checksum_is_believed_only_of_the_transaction_that_made_its_version(
    tmp_path: Path, checksum_of: dict[str, str], entry_of: dict[str, str]
) -> None:
    """MONOTONE, COVER: one that outlived its own version, which was then made anew, tells the position of that one."""
    body = {"metadata": METADATA, "protocol": PROTOCOL, "setTransactions": [txn(9)]}
    written(tmp_path, 5, **{digits(4) + ".crc": {**checksum_of, **body}})
    entry(tmp_path, 4).write_text(json.dumps({"commitInfo": entry_of}) + "\n" + json.dumps({"txn": txn(4)}) + "\n")
    view = newest_view(tmp_path)
    assert view is not None and view.transactions == {"a/t/0/0": 4}


def test_an_entry_that_cannot_be_read_is_no_view(tmp_path: Path) -> None:
    """Cut short it tells nothing; empty it tells that nothing was changed, as Delta has it."""
    written(tmp_path, 3)
    entry(tmp_path, 1).write_text('{"txn": {"appId"')
    assert newest_view(tmp_path) is None
    entry(tmp_path, 1).write_text("")
    view = newest_view(tmp_path)
    assert view is not None and view.transactions == {"a/t/0/0": 2}


@pytest.mark.parametrize(
    "metadata, protocol",
    [
        ({"configuration": {"delta.coordinatedCommits.commitCoordinator-preview": "some"}}, {}),
        ({}, {"writerFeatures": ["catalogOwned-preview"]}),
        ({}, {"writerFeatures": ["catalogManaged"]}),
    ],
)
def test_a_table_whose_newest_commits_may_stand_elsewhere_is_left_to_delta(
    tmp_path: Path, metadata: dict[str, Any], protocol: dict[str, Any]
) -> None:
    """By its properties or by its features."""
    kinds = {"metadata": {**METADATA, **metadata}, "protocol": {**PROTOCOL, **protocol}}
    body = {**made_by(0), **kinds, "setTransactions": [txn(0)]}
    written(tmp_path, 1, **{digits(0) + ".crc": body})
    assert newest_view(tmp_path) is None


def test_the_fingerprint_is_of_what_files_must_fit_however_it_is_written(tmp_path: Path) -> None:
    """Properties that files do not depend on, and the order of features, change nothing."""

    def of(metadata: Mapping[str, Any], protocol: Mapping[str, Any]) -> str:
        kinds = {"metadata": {**METADATA, **metadata}, "protocol": {**PROTOCOL, **protocol}}
        body = {**made_by(0), **kinds, "setTransactions": [txn(0)]}
        view = newest_view(written(tmp_path, 1, **{digits(0) + ".crc": body}))
        assert view is not None
        return view.fingerprint

    plain = of({}, {})
    assert plain == of({"configuration": {"other": "1"}}, {"writerFeatures": None}) == of({"configuration": None}, {})
    assert of({}, {"writerFeatures": ["a", "b"]}) == of({}, {"writerFeatures": ["b", "a"]}) != plain
    changes: list[Mapping[str, Any]] = [
        {"id": "u"}, {"schemaString": "{ }"}, {"partitionColumns": None},
        {"configuration": {"delta.constraints.c": "x"}}, {"configuration": {"delta.columnMapping.mode": "name"}},
    ]  # fmt: skip
    assert len({plain, *(of(change, {}) for change in changes)}) == 1 + len(changes)
    assert of({}, {"minWriterVersion": 3}) != plain
