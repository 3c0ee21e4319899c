"""Where the lakes of a drill stand: folders of its own, or places below one address of an S3, whose network may fail.

    tasks ──> FaultyProxy ──> S3 <── whoever looks on: the naive check, SQL, the audit

Whoever looks on has another way, so what the drill sees of a lake is there also while the tasks see nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pyarrow import fs

from exporter.local.plain import PlainLake
from exporter.local.proxy import FaultyProxy
from exporter.local.s3 import BUCKET, LocalS3
from exporter.local.server import CREDENTIALS
from exporter.settings.model import Settings
from exporter.stores.store import Store
from exporter.stores.stores import open_store


class Lakes(Protocol):
    """jar_sets: beside Spark's own. look_secs: the pace of whoever looks on. proxy: the way to it, if it may be broken.

    name: of one lake. folder: of the run that has it.
    """

    jar_sets: tuple[str, ...]
    look_secs: float
    proxy: FaultyProxy | None

    @property
    def own(self) -> frozenset[str]:
        """What of it the drill may break."""
        ...

    def store(self, name: str, folder: Path) -> Store:
        """As who looks on has it."""
        ...

    def settings(self, name: str, folder: Path, direct: bool = False) -> dict[str, Any]:
        """What an exporter has to be told. direct: one of who looks on."""
        ...

    def plain(self, name: str, folder: Path) -> PlainLake: ...

    def drop(self, name: str, folder: Path, keep: bool) -> None:
        """A run is over. keep: what its tables were stays in its folder."""
        ...

    def close(self) -> None:
        """End what is its own."""
        ...


class FolderLakes:
    """A folder `lake` in the folder of each run, which goes with that."""

    own = frozenset({"disk"})
    jar_sets: tuple[str, ...] = ()
    look_secs: float = 0.03
    proxy: FaultyProxy | None = None

    def store(self, name: str, folder: Path) -> Store:
        return open_store(str(folder / "lake"))

    def settings(self, name: str, folder: Path, direct: bool = False) -> dict[str, Any]:
        return {"table_root": str(folder / "lake")}

    def plain(self, name: str, folder: Path) -> PlainLake:
        return PlainLake(folder / "lake")

    def drop(self, name: str, folder: Path, keep: bool) -> None:
        """They stand in the run's folder."""

    def close(self) -> None:
        """Does nothing: no server was started for folders."""


@dataclass
class S3Lakes:
    """root: s3://bucket/path, above all lakes. options: of its store. s3, proxy: the drill's own; None: it is given."""

    root: str
    options: Mapping[str, str]
    s3: LocalS3 | None = None
    proxy: FaultyProxy | None = None
    jar_sets: tuple[str, ...] = ("s3",)
    look_secs: float = 0.3

    @property
    def own(self) -> frozenset[str]:
        return frozenset({"store"}) if self.proxy is not None else frozenset()

    def store(self, name: str, folder: Path) -> Store:
        return open_store(f"{self.root}/{name}", self.options)

    def settings(self, name: str, folder: Path, direct: bool = False) -> dict[str, Any]:
        told: dict[str, Any] = {"table_root": f"{self.root}/{name}"}
        told |= {f"s3_{option}": text for option, text in self.options.items()}
        if self.proxy is not None and not direct:
            told["s3_endpoint"] = self.proxy.endpoint
        return told

    def plain(self, name: str, folder: Path) -> PlainLake:
        return PlainLake(self._path(name), self._files())

    def drop(self, name: str, folder: Path, keep: bool) -> None:
        path, files = self._path(name), self._files()
        if files.get_file_info(path).type == fs.FileType.NotFound:
            return
        if keep:
            fs.copy_files(path, str(folder / "lake"), files, fs.LocalFileSystem())
        files.delete_dir(path)

    def close(self) -> None:
        if self.proxy is not None:
            self.proxy.close()
        if self.s3 is not None:
            self.s3.close()

    def _path(self, name: str) -> str:
        return f"{self.root.partition('://')[2]}/{name}"

    def _files(self) -> fs.FileSystem:
        region, endpoint = self.options.get("region"), self.options.get("endpoint")
        return fs.S3FileSystem(region=region, endpoint_override=endpoint)


def own_s3() -> S3Lakes:
    """An S3, and a proxy before it. Raises ConfigError, DependencyUnreachable."""
    s3 = LocalS3()
    s3.start()
    os.environ.update(CREDENTIALS)
    proxy = FaultyProxy(s3.endpoint)
    proxy.start()
    options = {"endpoint": s3.endpoint, "region": "us-east-1"}
    return S3Lakes(f"s3://{BUCKET}", options, s3, proxy)


def lakes_of(kind: str, given: Settings | None) -> Lakes:
    """kind: `file` or `s3`. given: settings whose S3 is used if their tables are in one."""
    if kind == "file":
        return FolderLakes()
    if given is not None and given.table_root.startswith(("s3://", "s3a://")):
        return S3Lakes(given.table_root.rstrip("/"), given.store_options)
    return own_s3()
