"""Google Cloud Storage: Delta's own store makes a log entry on the condition that the object has no generation yet.

Credentials are Application Default Credentials, in no setting and in no order: the file that
GOOGLE_APPLICATION_CREDENTIALS names, else the machine's service account. Google's connector for Hadoop looks there too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from exporter.stores.object_client import Waiting, kept_client
from exporter.stores.object_store import ObjectStore
from exporter.stores.store import JavaSide

LOG_STORE = "io.delta.storage.GCSLogStore"
HADOOP = {"http.max.retry": "3", "http.connect-timeout": "5000", "http.read-timeout": "15000"}
"""A store that is silent or down is given up after a minute. ms."""


class GcsStore(ObjectStore):
    """options: endpoint, of an emulator, which asks for no login."""

    shape: ClassVar[str] = "gs://bucket/path"
    hints: ClassVar[Mapping[str, str]] = {"NoSuchBucket": "make the bucket, or correct `table_root`"}

    def _client(self, waiting: Waiting) -> Any:
        bucket = self.root.partition("://")[2].partition("/")[0]
        return _client(bucket, self.options.get("endpoint", ""), waiting)

    @property
    def java(self) -> JavaSide:
        emulator = {
            "storage.root.url": f"{self.options.get('endpoint')}/",
            "auth.service.account.enable": "false",
            "auth.null.enable": "true",
        }
        told = {**HADOOP, **(emulator if "endpoint" in self.options else {})}
        settings = {f"spark.hadoop.fs.gs.{name}": text for name, text in told.items()}
        return JavaSide(settings={"spark.delta.logStore.gs.impl": LOG_STORE, **settings}, jar_sets=("gcs",))


@kept_client
def _client(bucket: str, endpoint: str, waiting: Waiting) -> Any:
    """obstore's store of a bucket; it asks for tokens as it needs them."""
    from obstore.store import GCSStore as Bucket

    told = {"base_url": endpoint} if endpoint else {}
    return Bucket(bucket, **told, **waiting.told(allow_http=endpoint.startswith("http://")))
