"""S3, and stores that speak like it: a log entry is one PUT on the condition that nobody was first.

    S3LogStore.java    writes versions; Delta's own store looks whether one is there and writes then, and two processes
                       that look at the same moment are both told that they committed
    S3Checksums.java   writes the checksum of each by one PUT; Spark's own way, renaming a file, takes 22 requests

Credentials are those of AWS's standard chain, here (boto3's) as in the JVM; they are in no setting and in no order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from exporter.stores.object_store import CLIENT, RETRIES, ObjectStore, require_root
from exporter.stores.store import JavaSide

LOG_STORE = "exporter.S3LogStore"
CHECKSUMS = "exporter.S3Checksums"
CHAIN = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"


@dataclass(frozen=True)
class S3Store(ObjectStore):
    """root: s3a://bucket/path. options: endpoint, region, path_style, allow_http."""

    root: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def at(cls, root: str, options: Mapping[str, str] | None = None) -> S3Store:
        """The store at s3://bucket/path or s3a://bucket/path. Raises ValueError for what is neither."""
        require_root(root, "s3://bucket/path")
        return cls(f"s3a://{root.partition('://')[2].rstrip('/')}", dict(options or {}))

    def _client(self, retries: bool) -> Any:
        return _client(self.root.partition("://")[2].partition("/")[0], tuple(sorted(self.options.items())), retries)

    @property
    def java(self) -> JavaSide:
        told = self.options
        settings = {
            "spark.delta.logStore.s3a.impl": LOG_STORE,
            "spark.sql.streaming.checkpointFileManagerClass": CHECKSUMS,
            "spark.hadoop.delta.enableFastS3AListFrom": "true",
            "spark.hadoop.fs.s3a.aws.credentials.provider": CHAIN,
            "spark.hadoop.fs.s3a.path.style.access": told.get("path_style", "false"),
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false" if told.get("allow_http") else "true",
        }
        if endpoint := told.get("endpoint"):
            settings["spark.hadoop.fs.s3a.endpoint"] = endpoint
        if region := told.get("region"):
            settings["spark.hadoop.fs.s3a.endpoint.region"] = region
        sources = tuple(Path(__file__).with_name(f"{name.rpartition('.')[2]}.java") for name in (LOG_STORE, CHECKSUMS))
        return JavaSide(settings=settings, sources=sources, jar_sets=("s3",))


@cache
def _client(bucket: str, options: tuple[tuple[str, str], ...], retries: bool) -> Any:
    """obstore's store of a bucket, one per process: it keeps its connections and its credentials."""
    import boto3
    from obstore.auth.boto3 import Boto3CredentialProvider
    from obstore.store import S3Store as Bucket

    told, session = dict(options), boto3.Session()
    region = told.get("region") or session.region_name or "us-east-1"
    return Bucket(
        bucket,
        region=region,
        virtual_hosted_style_request=not told.get("path_style"),
        client_options={**CLIENT, "allow_http": bool(told.get("allow_http"))},
        retry_config=RETRIES if retries else {"max_retries": 0},
        credential_provider=Boto3CredentialProvider(session),
        **({"endpoint": told["endpoint"]} if "endpoint" in told else {}),
    )
