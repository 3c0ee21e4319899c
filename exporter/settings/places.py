"""The settings of where things are: the store, the catalog and Spark. A part of the one model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from exporter.settings.table import Part
from exporter.settings.values import Archive, Database, DriverHost, Endpoint, Master, Memory, Port, TextTable

S3 = frozenset(("s3_endpoint", "s3_region"))
"""Settings that say how an S3 is reached."""


class Places(Part):
    """See Settings (model.py), of which it is a part."""

    s3_endpoint: Endpoint = Field(default="", examples=["http://localhost:9000"])
    """Address of an S3 that is not AWS's own; the bucket stands in the path then. With http:// nothing is encrypted on
    the way. Credentials are those of the standard chain: environment, ~/.aws, web identity or the machine's role."""
    s3_region: str = Field(default="", examples=["eu-central-1"])
    """Region of the bucket; without it what the environment or ~/.aws says."""

    parquet_compression: Literal["", "zstd", "snappy", "gzip", "lz4", "none"] = Field(default="", examples=["snappy"])
    """Codec of data files, and of what maintenance makes of them; without it zstd, but snappy for files of a few KiB
    and for what maintenance makes."""
    catalog: Literal["", "hive", "glue"] = Field(default="", examples=["hive"])
    """Catalog in which the tables are registered beside the export: a Hive metastore (by Spark) or AWS Glue. It is
    never waited for; what it misses is put right later."""
    catalog_database: Database = Field(default="", examples=["lake"])
    """Database of the catalog that gets the tables, called as their event types in lower case, with _ for all but
    letters and digits."""
    catalog_uri: str = Field(default="", examples=["thrift://metastore:9083"])
    """Address of the Hive metastore, or of a Glue that is not AWS's own; without it what hive-site.xml or AWS says."""

    spark_master: Master = "local[*]"
    """Where Spark runs: local[*], local[<cores>], spark://host:port, k8s://https://host:port or yarn."""
    driver_memory: Memory = "1g"
    """Heap of the JVM, as Java writes it: a number with k, m, g or t."""
    driver_host: DriverHost = Field(default="", examples=["exporter-driver"])
    """Address under which the workers of a cluster reach this process; without it the host's name."""
    driver_port: Port = Field(default=0, examples=[7078])
    """TCP port on which the driver waits for executors; its block manager has the next one. 0 = any."""
    worker_python: str = Field(default="", examples=["./env/bin/python"])
    """Python of the workers of a cluster, as they find it: a path that each has, or one in worker_archive. Without it
    this process's own."""
    worker_archive: Archive = Field(default="", examples=["env.tar.gz#env"])
    """Archive of a Python environment that holds the exporter; Spark unpacks it at each worker: path#folder."""

    spark: TextTable = Field(default_factory=dict, examples=[{"spark.executor.memory": "2g"}])
    """Options of Spark that are passed on as they are; those that the export rests on are refused."""
    table_properties: TextTable = Field(
        default_factory=dict, examples=[{"delta.logRetentionDuration": "interval 30 days"}]
    )
    """Table properties of Delta that a table gets when it is made; one that is there keeps its own."""
