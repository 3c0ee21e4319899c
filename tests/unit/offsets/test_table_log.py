"""What a snapshot and a commit file say: positions, names, operations, our metadata."""

from __future__ import annotations

import json

import pytest

from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import (
    CONFIG_PROPERTY,
    EMPTY,
    ROUTING_PROPERTY,
    LogState,
    TableView,
    last_named_offsets,
    live_adds,
    own_metadata,
    parse_commit,
    replay,
    same_files_before,
)

TP = TopicPartition("orders", 0)


def info(operation: str, user_metadata: str | None = None, **parameters: object) -> str:
    action = {"operation": operation, "operationParameters": parameters}
    if user_metadata is not None:
        action["userMetadata"] = user_metadata
    return json.dumps({"commitInfo": action})


def add(path: str) -> str:
    return json.dumps({"add": {"path": path, "size": 1}})


def named(last: int, topic: str = "orders", epoch: int = 0, app: str = "app", day: str = "2026-11-01") -> str:
    return f"day={day}/{app}.{topic}.0.{epoch}.{last:020d}.x.parquet"


def test_a_view_tells_the_live_position():
    """A table's position is read from its snapshot's transactions."""
    view = TableView(3, "id", "f", {"app/orders/0/0": 41})
    assert view.position("app", TP) == Position(0, 41)
    assert view.position("other", TP) is None


def test_the_routing_history_is_kept_per_partition():
    """Each partition has its own epochs; a partition without history has an empty one."""
    view = TableView(3, "id", "f", {}, {f"{ROUTING_PROPERTY}orders-0": '{"0": "aa", "12": "bb"}'})
    assert view.routing_history(TP) == {0: "aa", 12: "bb"}
    assert view.routing_history(TopicPartition("orders", 1)) == {}


def test_property_names_stored_so_far_are_read_for_ever():
    """Literal property keys that tables hold."""
    assert (ROUTING_PROPERTY, CONFIG_PROPERTY) == ("exporter.routing.", "exporter.config.")


def test_the_live_files_are_those_added_and_not_removed_since():
    """A file is its path and its deletion vector; one commit may remove a file and add it with another vector."""

    def file(kind: str, path: str, vector: int | None = None) -> str:
        marked = {"storageType": "u", "pathOrInlineDv": "v", "offset": vector}
        return json.dumps({kind: {"path": path} | ({} if vector is None else {"deletionVector": marked})})

    versions = [
        [info("WRITE"), file("add", "a"), file("add", "b"), ""],
        [file("add", "a", 1), file("remove", "a")],
        [file("remove", "b"), file("remove", "a", 1), file("add", "a", 2), file("add", "c")],
        [file("add", "b")],
    ]
    live = [[one["path"] for one in live_adds(versions[:through])] for through in range(1, 5)]
    assert live == [["a", "b"], ["b", "a"], ["a", "c"], ["a", "c", "b"]]


def test_a_commit_file_tells_operation_and_files():
    """A JSON object a line; empty lines, transactions and metadata say nothing here."""
    lines = [
        info("STREAMING UPDATE", json.dumps({"commit_id": "c1"})),
        "",
        '{"txn": {"appId": "app/orders/0/0", "version": 1}}',
        '{"metaData": {"id": "table-1"}}',
        add(named(41)),
        add(named(42)),
        '{"remove": {"path": "x"}}',
    ]
    commit = parse_commit(7, lines)
    assert (commit.version, commit.operation, commit.commit_id) == (7, "STREAMING UPDATE", "c1")
    assert commit.added == (named(41), named(42))
    assert (commit.removed, commit.rewinds) == (("x",), False)


def test_a_file_whose_statistics_are_stated_anew_was_there_before():
    """Without it a RESTORE to a time, or a damaged file, would be looked for behind that commit; OPTIMIZE adds."""
    again = json.dumps({"add": {"path": "a", "dataChange": False}})
    packed = json.dumps({"remove": {"path": "b", "dataChange": False}})
    taken = json.dumps({"remove": {"path": "b", "dataChange": True}})
    new = json.dumps({"add": {"path": "c", "dataChange": True}})
    assert parse_commit(1, [again, new]).added == parse_commit(1, [again, new, taken]).added == ("c",)
    assert parse_commit(1, [again, packed]).added == ("a",)


def test_lines_of_positions_are_passed_over_if_they_are_whole():
    """They are most of a commit of thousands of partitions. An entry that was cut off in one is damaged."""
    line = '{"txn":{"appId":"app/orders/0/0","version":1,"lastUpdated":5}}'
    assert parse_commit(1, [line + "\n", add("a"), line]).added == ("a",)
    assert parse_commit(1, [line]).operation == "", "somebody's, not an empty entry"
    for cut in range(1, len(line)):
        with pytest.raises(ValueError):
            parse_commit(1, [info("WRITE"), line[:cut]])


def test_an_empty_marker_adds_no_file():
    """Traps 26: a commit with a position only has nothing added or removed."""
    commit = parse_commit(1, [info("STREAMING UPDATE", "{}"), '{"txn": {"appId": "a", "version": 1}}'])
    assert (commit.added, commit.removed, commit.commit_id) == ((), (), None)


@pytest.mark.parametrize(
    "operation",
    [
        "RESTORE",
        "CREATE OR REPLACE TABLE",
        "REPLACE TABLE",
        "CREATE OR REPLACE TABLE AS SELECT",
        "REPLACE TABLE AS SELECT",
        "CLONE",
        "TRUNCATE",
    ],
)
def test_operations_that_take_rows_away_behind_positions_are_found(operation):
    """MONOTONE: after these a table's rows may lie behind its positions (traps 11)."""
    assert parse_commit(1, [info(operation)]).rewinds


@pytest.mark.parametrize("mode", ["Overwrite", "overwrite"])
def test_an_overwrite_is_found_by_its_mode(mode):
    """MONOTONE: WRITE in mode overwrite replaces rows, in Spark's and in delta-rs' spelling."""
    assert parse_commit(1, [info("WRITE", mode=mode)]).rewinds


@pytest.mark.parametrize(
    "operation", ["WRITE", "OPTIMIZE", "VACUUM START", "VACUUM END", "DELETE", "UPDATE", "MERGE", "STREAMING UPDATE"]
)
def test_what_users_do_to_their_rows_is_no_alarm(operation):
    """Protocol 4.5: OPTIMIZE, VACUUM, DELETE, UPDATE, MERGE and appends are the users' business (traps 12)."""
    assert not parse_commit(1, [info(operation, mode="Append")]).rewinds


@pytest.mark.parametrize("line", ['{"commitInfo": {}}', '{"commitInfo": {"operationParameters": null}}', "{}"])
def test_a_commit_without_details_is_read(line):
    """Other writers leave parts of commitInfo away."""
    commit = parse_commit(1, [line])
    assert (commit.operation, commit.user_metadata, commit.rewinds) == ("", "", False)


def test_a_commit_without_any_action_counts_as_an_accident():
    """No writer makes it; a power cut leaves it, with positions beyond it in a checksum or a later commit."""
    assert (parse_commit(1, []).operation, parse_commit(1, ["\n"]).rewinds) == (EMPTY, True)


@pytest.mark.parametrize("line", ["not json", '{"add": {}}'])
def test_an_unreadable_commit_is_never_taken_for_an_empty_one(line):
    """Traps 4: unreadable means stop."""
    with pytest.raises((ValueError, KeyError)):
        parse_commit(1, [line])


@pytest.mark.parametrize("text", ["", "note of a user", "[]", '"commit_id"', "3", "null", '{"owner": "x"}', "{"])
def test_metadata_of_others_is_not_ours(text):
    """userMetadata is free text: only a JSON object with a commit id is ours."""
    assert own_metadata(text) == {}
    assert parse_commit(1, [info("WRITE", text)]).commit_id is None


def test_our_metadata_comes_back_whole():
    """What we wrote into userMetadata is what we read."""
    value = {"commit_id": "c", "owner": "o", "checked_through": 4}
    assert own_metadata(json.dumps(value)) == value


def test_the_last_named_offset_is_the_largest_over_all_days():
    """Traps 2: the day of a file does not matter; topic partition and epoch do."""
    paths = [named(30, day="2026-11-03"), named(50, day="2026-11-01"), named(40, day="2026-11-02"), named(7, epoch=1)]
    assert last_named_offsets(paths, "app") == {TP: {0: 50, 1: 7}}


def test_a_replays_files_say_nothing_of_positions():
    """They hold dead letters of any offset."""
    paths = [named(30), named(50).replace(".parquet", "").rpartition(".")[0] + ".replay-1-0f.parquet"]
    assert last_named_offsets(paths, "app") == {TP: {0: 30}}


def test_the_names_of_a_log_are_decoded_before_they_are_read() -> None:
    """A folder whose name holds % stands in the log as a URI has it."""
    name = "app.a.b.0.0.00000000000000000030.u.parquet"
    paths = [f"month=2026-01/c=%2541%252F/{name}", f"month=2026-01/c=a%252F/{name}", f"c=a%2F/{name}", f"c=b%ZZ/{name}"]
    assert last_named_offsets(paths[1:2], "app") == {TopicPartition("a.b", 0): {0: 30}}
    assert last_named_offsets([paths[0], *paths[2:]], "app") == {}


def test_names_of_other_apps_and_writers_are_passed_over():
    """Spark's part files and other apps' files say nothing about our positions."""
    paths = ["part-0000.parquet", named(9, app="app2"), named(5, topic="a.b"), "s3://b/" + named(8)]
    assert last_named_offsets(paths, "app") == {TopicPartition("a.b", 0): {0: 5}}


@pytest.mark.parametrize(
    "parameters, expected",
    [
        ({"version": 7, "timestamp": None}, 7),
        ({"version": "7"}, 7),
        ({"version": None, "timestamp": "2026-11-21 14:00:00"}, "2026-11-21 14:00:00"),
        ({}, None),
    ],
)
def test_a_restore_tells_where_it_went_back_to(parameters, expected):
    """By version or by time, one of them null; delta-rs writes numbers as text."""
    assert parse_commit(1, [info("RESTORE", **parameters)]).restored_to == expected
    assert parse_commit(1, [info("WRITE", **parameters)]).restored_to is None


def test_a_stream_in_complete_mode_overwrites():
    """MONOTONE: it replaces all rows with each batch; our own commits are in append mode."""
    assert parse_commit(1, [info("STREAMING UPDATE", outputMode="Complete")]).rewinds
    assert not parse_commit(1, [info("STREAMING UPDATE", outputMode="Append")]).rewinds


def test_the_version_with_the_same_files_is_found_in_the_log():
    """What a RESTORE to a time went back to; the newest one, because between equal ones only positions moved."""
    remove = '{"remove": {"path": "%s"}}'
    log = [[add("a")], [add("b")], [], [add("c"), remove % "a"]]
    commits = [parse_commit(version, lines) for version, lines in enumerate(log)]
    live = {"b", "c"}
    assert same_files_before(live, {"a", "b"}, reversed(commits)) == 2
    assert same_files_before(live, {"a"}, reversed(commits)) == 0
    assert same_files_before(live, {"b", "c"}, reversed(commits)) == 3
    assert same_files_before(live, {"z"}, reversed(commits)) is None


def test_a_log_is_replayed_from_a_checksum_or_from_its_beginning() -> None:
    """The newest of each; nothing where a part of it is unknown."""
    first = ['{"metaData": {"id": "t", "configuration": {}}}', '{"protocol": {"minWriterVersion": 2}}', ""]
    second = ['{"txn": {"appId": "a/t/0/0", "version": 5}}', '{"add": {"path": "x"}}']
    third = ['{"metaData": {"id": "t", "configuration": {"k": "v"}}}', '{"txn": {"appId": "a/t/0/0", "version": 9}}']
    whole = LogState({"id": "t", "configuration": {"k": "v"}}, {"minWriterVersion": 2}, {"a/t/0/0": 9})
    assert replay(None, [first, second, third]) == whole
    checksum = {
        "metadata": {"id": "t", "configuration": {}}, "protocol": {"minWriterVersion": 2},
        "setTransactions": [{"appId": "a/t/0/0", "version": 5}, {"appId": "other", "version": 1}],
    }  # fmt: skip
    found = replay(checksum, [third])
    assert found is not None and found.transactions == {"a/t/0/0": 9, "other": 1}
    assert found.metadata == whole.metadata
    assert replay({**checksum, "setTransactions": None}, [third]) is None
    assert replay({"metadata": {}, "protocol": {}}, [third]) is None, "over 100 appIds they may be left out"
    assert replay(None, [second]) is None
