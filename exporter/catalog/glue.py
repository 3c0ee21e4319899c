"""AWS Glue: tables as Athena, EMR, Redshift and Spark read them as Delta's.

Region and credentials are boto3's, as everywhere.
"""

from __future__ import annotations

from typing import Any

from exporter import aws
from exporter.catalog.catalog import CatalogEntry, CatalogTable, plain_location
from exporter.catalog.hive_types import Columns

CALL_SECS = 10.0
PARAMETERS = {
    "EXTERNAL": "TRUE", "classification": "delta", "table_type": "delta", "spark.sql.sources.provider": "delta",
}  # fmt: skip
"""What tells the readers that it is a Delta table: `table_type` Athena, the provider Spark and Trino."""
_STORED = {
    "InputFormat": "org.apache.hadoop.mapred.SequenceFileInputFormat",
    "OutputFormat": "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
}
_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_TAKEN = (
    "Name", "Description", "Owner", "Retention", "PartitionKeys", "TableType", "Parameters", "StorageDescriptor",
)  # fmt: skip
"""Of a table that is read, what may be written back."""


class GlueCatalog:
    """One database of AWS Glue, as a catalog."""

    def __init__(self, database: str, client: Any) -> None:
        """client: of boto3, for Glue."""
        self._database = database
        self._client = client

    @classmethod
    def connect(cls, database: str, endpoint: str) -> GlueCatalog:
        """endpoint: of a Glue that is not AWS's own, or empty. Asks nothing yet."""
        import boto3  # 0.1 s
        from botocore.config import Config

        config = Config(connect_timeout=CALL_SECS, read_timeout=CALL_SECS, retries={"total_max_attempts": 2})
        session = boto3.session.Session(botocore_session=aws.session())
        return cls(database, session.client("glue", endpoint_url=endpoint or None, config=config))

    def find(self, name: str) -> CatalogTable | None:
        table = self._table(name)
        if table is None:
            return None
        stored = table.get("StorageDescriptor", {})
        columns = [(column["Name"], column.get("Type", "")) for column in stored.get("Columns", ())]
        return CatalogTable(stored.get("Location", ""), (*columns,))

    def make(self, entry: CatalogEntry) -> None:
        errors = self._client.exceptions
        try:
            self._client.create_table(DatabaseName=self._database, TableInput=_table_input(entry))
        except errors.AlreadyExistsException:
            return
        except errors.EntityNotFoundException:
            self._client.create_database(DatabaseInput={"Name": self._database})
            self.make(entry)

    def update(self, entry: CatalogEntry) -> None:
        table = self._table(entry.name) or _table_input(entry)
        kept = {name: table[name] for name in _TAKEN if name in table}
        kept["StorageDescriptor"] = kept["StorageDescriptor"] | {"Columns": _columns(entry.columns)}
        self._client.update_table(DatabaseName=self._database, TableInput=kept)

    def _table(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._client.get_table(DatabaseName=self._database, Name=name)["Table"]
        except self._client.exceptions.EntityNotFoundException:
            return None
        return found


def _table_input(entry: CatalogEntry) -> dict[str, Any]:
    location = plain_location(entry.location)
    serde = {"SerializationLibrary": _SERDE, "Parameters": {"serialization.format": "1", "path": location}}
    stored = {**_STORED, "Columns": _columns(entry.columns), "Location": location, "SerdeInfo": serde}
    return {
        "Name": entry.name,
        "TableType": "EXTERNAL_TABLE",
        "Parameters": PARAMETERS,
        "PartitionKeys": [],
        "StorageDescriptor": stored,
    }


def _columns(columns: Columns) -> list[dict[str, str]]:
    return [{"Name": name, "Type": kind} for name, kind in columns]
