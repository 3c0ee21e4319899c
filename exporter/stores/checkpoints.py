"""The live files that a checkpoint of a table's log tells of, read by pyarrow.

    <version>.checkpoint.parquet                        all of it
    <version>.checkpoint.<part>.<parts>.parquet         a part of it; it counts if all parts are there
    <version>.checkpoint.<uuid>.parquet or .json        all of it but what its sidecars have, Parquet in _sidecars

Source: the Delta protocol, 'Checkpoints', 'Sidecar Files', 'V2 Spec'.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow.parquet as pq

from exporter.stores.store import Store
from offsets.names import LOG_FOLDER

NAME = re.compile(
    r"(?P<version>\d{20})\.checkpoint\.(?:(?P<part>\d{10})\.(?P<parts>\d{10})\.|[0-9a-f-]{36}\.)?(?:parquet|json)"
)
SIDECARS = f"{LOG_FOLDER}/_sidecars"
FIELDS = ("path", "partitionValues", "size", "modificationTime", "stats", "tags", "deletionVector")
"""Of an `add` action, what is read of it."""
COLUMNS = [*(f"add.{name}" for name in FIELDS), "sidecar.path"]


class Untold(Exception):
    """A checkpoint does not tell all that the actions of a commit would have told."""


def newest(names: Iterable[str], version: int) -> tuple[int, list[str]]:
    """The version of the newest whole checkpoint up to `version`, and the names of its files; -1 and none without.

    names: of all that stands in the log's folder.
    """
    whole: dict[int, list[str]] = {}
    parts: dict[tuple[int, str], list[str]] = {}
    for name in sorted(names):
        if (found := NAME.fullmatch(name)) is None or int(found["version"]) > version:
            continue
        at = int(found["version"])
        if found["part"] is None:
            whole[at] = [name]
        else:
            some = parts.setdefault((at, found["parts"]), [])
            some.append(name)
            if len(some) == int(found["parts"]):
                whole.setdefault(at, some)
    return max(whole.items(), default=(-1, []))


def adds(table: Store, names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The `add` actions of a checkpoint, of each what FIELDS names and is there; none is a change. names: of its files.

    Raises OSError, ValueError for a file that is none, Untold.
    """
    for name in names:
        path = f"{LOG_FOLDER}/{name}"
        for action in _of_json(table, path) if name.endswith(".json") else _of_parquet(table, path):
            if (sidecar := action.get("sidecar")) is None:
                yield {**action["add"], "dataChange": False}
                continue
            if "/" in sidecar["path"]:
                raise Untold("a sidecar that stands elsewhere")
            for one in _of_parquet(table, f"{SIDECARS}/{sidecar['path']}"):
                yield {**one["add"], "dataChange": False}


def _of_json(table: Store, path: str) -> Iterator[Mapping[str, Any]]:
    for line in table.read(path).decode("utf-8").split("\n"):
        action = json.loads(line) if line.strip() else {}
        if action.keys() & {"add", "sidecar"}:
            yield action


def _of_parquet(table: Store, path: str) -> Iterator[Mapping[str, Any]]:
    with table.reader(path) as opened, pq.ParquetFile(opened) as source:
        leaves = {source.schema.column(number).path for number in range(len(source.schema))}
        if "add.stats" not in leaves and any(leaf.startswith("add.stats_parsed.") for leaf in leaves):
            raise Untold("statistics that are not written as JSON")
        for batch in source.iter_batches(columns=COLUMNS, use_threads=False):
            for kind in ("sidecar", "add"):
                if kind in batch.schema.names:
                    column = batch.column(kind)
                    yield from ({kind: _told(one)} for one in column.drop_null().to_pylist())


def _told(action: Mapping[str, Any]) -> dict[str, Any]:
    """As the JSON of a commit has it: maps as objects, nothing that is null."""
    told = {name: dict(one) if name in ("partitionValues", "tags") and one else one for name, one in action.items()}
    return {name: one for name, one in told.items() if one is not None}
