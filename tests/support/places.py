"""Where the lake of a test is, looked at with code that is not the exporter's: a folder by Python, a bucket by boto3.

    Export.place ─┬─ settings, table_root     into its settings file
                  ├─ spark_root               for SQL
                  ├─ delta_root, delta_options   for delta-rs
                  └─ files, read, write, delete  for whoever looks at files or spoils them
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from exporter.local.server import CREDENTIALS
from exporter.spark import java_classes
from exporter.stores.store import Store

CHECKSUMS = "spark.sql.streaming.checkpointFileManagerClass"
HADOOP = "spark.hadoop."


class File(NamedTuple):
    """One file. path: from the place's root. tag: changes with what is in it; empty where that is not known."""

    path: str
    bytes: int
    tag: str = ""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Place(Protocol):
    """A root of tables."""

    @property
    def table_root(self) -> str: ...

    @property
    def spark_root(self) -> str: ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the settings file says of it beside table_root."""
        ...

    @property
    def delta_root(self) -> str: ...

    @property
    def delta_options(self) -> dict[str, str] | None: ...

    def files(self, folder: str = "") -> list[File]:
        """All below a folder, by path; none if it is not there."""
        ...

    def read(self, file: File | str) -> bytes:
        """FileNotFoundError if it is not there."""
        ...

    def size(self, path: str) -> int | None: ...

    def written_at(self, path: str) -> float:
        """Seconds since 1970."""
        ...

    def write(self, path: str, body: bytes) -> None:
        """Create or replace a file."""
        ...

    def delete(self, path: str) -> None: ...


@dataclass(frozen=True)
class Folder:
    """A place on this machine's disk."""

    root: Path
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)
    delta_options: dict[str, str] | None = field(default=None, compare=False)

    @property
    def table_root(self) -> str:
        return str(self.root)

    spark_root = delta_root = table_root

    def files(self, folder: str = "") -> list[File]:
        found = []
        for path in (self.root / folder).rglob("*"):
            with suppress(FileNotFoundError):  # a writer's temporary file, gone since it was listed
                if stat.S_ISREG((state := path.stat()).st_mode):
                    found.append(File(str(path.relative_to(self.root)), state.st_size))
        return sorted(found)

    def read(self, file: File | str) -> bytes:
        return (self.root / _path(file)).read_bytes()

    def size(self, path: str) -> int | None:
        file = self.root / path
        return file.stat().st_size if file.exists() else None

    def written_at(self, path: str) -> float:
        return (self.root / path).stat().st_mtime

    def write(self, path: str, body: bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)

    def delete(self, path: str) -> None:
        (self.root / path).unlink()


@dataclass(frozen=True)
class Bucket:
    """A prefix of a bucket. What is read of a listed file is kept: logs are looked at again and again."""

    endpoint: str
    bucket: str
    prefix: str

    @property
    def table_root(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    delta_root = table_root

    @property
    def spark_root(self) -> str:
        return f"s3a://{self.bucket}/{self.prefix}"

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"s3_endpoint": self.endpoint, "s3_region": CREDENTIALS["AWS_DEFAULT_REGION"]}

    @property
    def delta_options(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": CREDENTIALS["AWS_DEFAULT_REGION"]
        }  # fmt: skip

    def files(self, folder: str = "") -> list[File]:
        pages = _client(self.endpoint).get_paginator("list_objects_v2")
        found = []
        for page in pages.paginate(Bucket=self.bucket, Prefix=f"{self.prefix}/{folder}".rstrip("/") + "/"):
            for one in page.get("Contents", []):
                if not one["Key"].endswith("/"):  # by that the JVM keeps a folder there in which nothing is
                    found.append(File(one["Key"].removeprefix(f"{self.prefix}/"), one["Size"], one["ETag"]))
        return sorted(found)

    def read(self, file: File | str) -> bytes:
        key = f"{self.prefix}/{_path(file)}"
        tag = file.tag if isinstance(file, File) else ""
        return _kept(self.endpoint, self.bucket, key, tag) if tag else _got(self.endpoint, self.bucket, key)

    def size(self, path: str) -> int | None:
        try:
            return int(self._head(path)["ContentLength"])
        except FileNotFoundError:
            return None

    def written_at(self, path: str) -> float:
        listed = _client(self.endpoint).list_objects_v2(Bucket=self.bucket, Prefix=f"{self.prefix}/{path}")
        return float(listed["Contents"][0]["LastModified"].timestamp())

    def _head(self, path: str) -> Mapping[str, Any]:
        with _absent(path):
            found: Mapping[str, Any] = _client(self.endpoint).head_object(
                Bucket=self.bucket, Key=f"{self.prefix}/{path}"
            )
        return found

    def write(self, path: str, body: bytes) -> None:
        _client(self.endpoint).put_object(Bucket=self.bucket, Key=f"{self.prefix}/{path}", Body=body)

    def delete(self, path: str) -> None:
        self._head(path)
        _client(self.endpoint).delete_object(Bucket=self.bucket, Key=f"{self.prefix}/{path}")


def _path(file: File | str) -> str:
    return file.path if isinstance(file, File) else file


@cache
def _client(endpoint: str) -> Any:
    """One for all threads, of the environment's credentials."""
    config = Config(s3={"addressing_style": "path"}, retries={"max_attempts": 5})
    return boto3.client("s3", endpoint_url=endpoint, region_name=CREDENTIALS["AWS_DEFAULT_REGION"], config=config)


@cache
def _kept(endpoint: str, bucket: str, key: str, _tag: str) -> bytes:
    return _got(endpoint, bucket, key)


def _got(endpoint: str, bucket: str, key: str) -> bytes:
    with _absent(key):
        body: bytes = _client(endpoint).get_object(Bucket=bucket, Key=key)["Body"].read()
    return body


@contextmanager
def _absent(path: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] in ("404", "NoSuchKey"):
            raise FileNotFoundError(path) from None
        raise


def bucket_of(store: Store) -> Bucket:
    """The place that a store of S3 is."""
    bucket, _, prefix = store.uri().partition("://")[2].partition("/")
    return Bucket(store.options["endpoint"], bucket, prefix)


def place_of(settings: Any) -> Place:
    """The place that settings name."""
    scheme, _, rest = settings.table_root.rpartition("://")
    if scheme in ("s3", "s3a"):
        bucket, _, prefix = rest.partition("/")
        return Bucket(settings.s3_endpoint, bucket, prefix)
    return Folder(Path(rest))


_at_home: set[str] = set()
"""Spark's ids of the applications that have the classes of a bucket."""


@contextmanager
def committing_to(session: Any, store: Store) -> Iterator[None]:
    """The session, started for another store but with this one's jars, commits to this one too in here.

    What tasks of their own process are started with is not tried by this: the drills are for that.
    """
    java, context = store.java, session.sparkContext
    if context.applicationId not in _at_home:
        java_classes.install(session, java)
        _at_home.add(context.applicationId)
    for name, value in java.settings.items():
        if name.startswith(HADOOP):
            context._jsc.hadoopConfiguration().set(name.removeprefix(HADOOP), value)
        elif name != CHECKSUMS:
            context._jsc.sc().conf().set(name, value)
    before = session.conf.get(CHECKSUMS)
    if CHECKSUMS in java.settings:
        session.conf.set(CHECKSUMS, java.settings[CHECKSUMS])
    try:
        yield
    finally:
        session.conf.set(CHECKSUMS, before)
