"""A Hive metastore, by its own client in the JVM that Spark runs: tables as Spark registers them by CREATE TABLE.

    CREATE TABLE IF NOT EXISTS <database>.<name> USING DELTA LOCATION '<location>'

Spark would ask the metastore itself only as a session's catalog, and then each query waits for it: a session takes its
lock to know its database, and has it while a metastore that hangs is asked. This client is nobody's but its thread's.
"""

from __future__ import annotations

from typing import Any

from exporter.catalog.catalog import CatalogEntry, CatalogTable
from exporter.errors import ConfigError

CALL_SECS = 20
NEXT_TO_NO_RETRIES = {
    "hive.metastore.client.socket.timeout": f"{CALL_SECS}s",
    "hive.metastore.connect.retries": "1",
    "hive.metastore.failure.retries": "0",
    "hive.metastore.client.connect.retry.delay": "1s",
}
"""Whoever registers tables tries again by himself."""
PARAMETERS = {
    "EXTERNAL": "TRUE",
    "spark.sql.sources.provider": "delta",
    "spark.sql.sources.schema": '{"type":"struct","fields":[]}',
    "spark.sql.partitionProvider": "catalog",
}
"""As Spark writes them: the columns are the log's to say."""
NO_COLUMNS = ("col", "array<string>", "from deserializer")
"""As Spark writes it: Hive has no table without columns."""
_INPUT = "org.apache.hadoop.mapred.SequenceFileInputFormat"
_OUTPUT = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_MISSING = "NoSuchObjectException"
_ALREADY = "AlreadyExistsException"


class HiveCatalog:
    """One database. Each call has a connection of its own."""

    def __init__(self, database: str, uris: str, session: Any) -> None:
        """uris: of the metastore, thrift://host:port with commas between; empty: those of hive-site.xml."""
        self._database = database
        self._uris = uris
        self._session = session

    def find(self, name: str) -> CatalogTable | None:
        with _Connection(self._session, self._uris) as client:
            try:
                table = client.getTable(self._database, name)
            except Exception as error:
                if _is(error, _MISSING):
                    return None
                raise
            stored = table.getSd()
            return CatalogTable(str(stored.getSerdeInfo().getParameters().get("path") or stored.getLocation()))

    def make(self, entry: CatalogEntry) -> None:
        jvm = self._session._jvm
        api = jvm.org.apache.hadoop.hive.metastore.api
        with _Connection(self._session, self._uris) as client:
            try:
                client.getDatabase(self._database)
            except Exception as error:
                if not _is(error, _MISSING):
                    raise
                made = api.Database()
                made.setName(self._database)
                _unless_there(lambda: client.createDatabase(made))
            _unless_there(lambda: client.createTable(_table(jvm, self._database, entry)))

    def update(self, entry: CatalogEntry) -> None:
        """Never asked: find() tells no columns."""


class _Connection:
    """A client of the metastore, closed in the end."""

    def __init__(self, session: Any, uris: str) -> None:
        """Raises ConfigError where nothing says which metastore: Hive would make one of its own on this disk."""
        jvm = session._jvm
        hadoop = session.sparkContext._jsc.hadoopConfiguration()
        of_name = jvm.java.lang.Class.forName
        self._conf = jvm.org.apache.hadoop.hive.conf.HiveConf(hadoop, of_name("org.apache.hadoop.hive.conf.HiveConf"))
        for name, text in NEXT_TO_NO_RETRIES.items():
            self._conf.set(name, text)
        if uris:
            self._conf.set("hive.metastore.uris", uris)
        if not self._conf.get("hive.metastore.uris"):
            raise ConfigError("no hive-site.xml says where the metastore is", "set `catalog_uri`")
        self._jvm = jvm

    def __enter__(self) -> Any:
        self._client = self._jvm.org.apache.hadoop.hive.metastore.HiveMetaStoreClient(self._conf)
        return self._client

    def __exit__(self, *_: object) -> None:
        self._client.close()


def _table(jvm: Any, database: str, entry: CatalogEntry) -> Any:
    api = jvm.org.apache.hadoop.hive.metastore.api
    serde = api.SerDeInfo()
    serde.setSerializationLib(_SERDE)
    serde.setParameters({"serialization.format": "1", "path": entry.location})
    stored = api.StorageDescriptor()
    stored.setCols([api.FieldSchema(*NO_COLUMNS)])
    stored.setLocation(entry.location)
    stored.setInputFormat(_INPUT)
    stored.setOutputFormat(_OUTPUT)
    stored.setSerdeInfo(serde)
    table = api.Table()
    table.setDbName(database)
    table.setTableName(entry.name)
    table.setTableType("EXTERNAL_TABLE")
    table.setParameters(PARAMETERS)
    table.setPartitionKeys([])
    table.setSd(stored)
    return table


def _unless_there(make: Any) -> None:
    try:
        make()
    except Exception as error:
        if not _is(error, _ALREADY):
            raise


def _is(error: BaseException, name: str) -> bool:
    """Whether a call to the JVM failed by an exception of this name."""
    java = getattr(error, "java_exception", None)
    return java is not None and str(java.getClass().getSimpleName()) == name
