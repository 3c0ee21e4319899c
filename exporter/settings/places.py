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

    s3_endpoint: Endpoint = Field(
        default="",
        description="Address of an S3 that is not AWS's own; the bucket stands in the path then. With http:// nothing "
        "is encrypted on the way. Credentials are those of the standard chain: environment, ~/.aws, web identity or "
        "the machine's role.",
        examples=["http://localhost:9000"],
    )
    s3_region: str = Field(
        default="", description="Region of the bucket; without it what the environment or ~/.aws says.",
        examples=["eu-central-1"],
    )  # fmt: skip

    parquet_compression: Literal["", "zstd", "snappy", "gzip", "lz4", "none"] = Field(
        default="",
        description="Codec of data files, and of what maintenance makes of them; without it zstd, but snappy for files "
        "of a few KiB and for what maintenance makes.",
        examples=["snappy"],
    )
    catalog: Literal["", "hive", "glue"] = Field(
        default="",
        description="Catalog in which the tables are registered beside the export: a Hive metastore (by Spark) or AWS "
        "Glue. It is never waited for; what it misses is put right later.",
        examples=["hive"],
    )
    catalog_database: Database = Field(
        default="",
        description="Database of the catalog that gets the tables, called as their event types in lower case, with _ "
        "for all but letters and digits.",
        examples=["lake"],
    )
    catalog_uri: str = Field(
        default="",
        description="Address of the Hive metastore, or of a Glue that is not AWS's own; without it what hive-site.xml "
        "or AWS says.",
        examples=["thrift://metastore:9083"],
    )

    spark_master: Master = Field(
        default="local[*]",
        description="Where Spark runs: local[*], local[<cores>], spark://host:port, k8s://https://host:port or yarn.",
    )
    driver_memory: Memory = Field(
        default="1g", description="Heap of the JVM, as Java writes it: a number with k, m, g or t."
    )
    driver_host: DriverHost = Field(
        default="",
        description="Address under which the workers of a cluster reach this process; without it the host's name.",
        examples=["exporter-driver"],
    )
    driver_port: Port = Field(
        default=0,
        description="TCP port on which the driver waits for executors; its block manager has the next one. 0 = any.",
        examples=[7078],
    )
    worker_python: str = Field(
        default="",
        description="Python of the workers of a cluster, as they find it: a path that each has, or one in "
        "worker_archive. Without it this process's own.",
        examples=["./env/bin/python"],
    )
    worker_archive: Archive = Field(
        default="",
        description="Archive of a Python environment that holds the exporter; Spark unpacks it at each worker: "
        "path#folder.",
        examples=["env.tar.gz#env"],
    )

    spark: TextTable = Field(
        default_factory=dict,
        description="Options of Spark that are passed on as they are; those that the export rests on are refused.",
        examples=[{"spark.executor.memory": "2g"}],
    )
    table_properties: TextTable = Field(
        default_factory=dict,
        description="Table properties of Delta that a table gets when it is made; one that is there keeps its own.",
        examples=[{"delta.logRetentionDuration": "interval 30 days"}],
    )
