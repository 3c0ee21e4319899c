"""The settings of where things are: the store, the catalog and Spark. The second part of the one model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from exporter.core.deployment import Deployment
from exporter.settings.coordinating import Coordinating
from exporter.settings.values import Archive, Database, DriverHost, Endpoint, Master, Memory, Port, TextTable
from exporter.stores.store import Store
from exporter.stores.stores import open_store

S3 = frozenset(("s3_endpoint", "s3_region", "s3_path_style", "s3_allow_http"))
"""Settings that say how an S3 is reached."""


class Places(Coordinating):
    """See Settings (model.py), of which it is a part."""

    s3_endpoint: Endpoint = Field(
        default="",
        description="Address of an S3 that is not AWS's own. Credentials are those of the standard chain: environment, "
        "~/.aws, web identity or the machine's role.",
        examples=["http://localhost:9000"],
    )
    s3_region: str = Field(
        default="", description="Region of the bucket; without it what the environment or ~/.aws says.",
        examples=["eu-central-1"],
    )  # fmt: skip
    s3_path_style: bool = Field(
        default=False, description="Whether the bucket stands in the path of an address and not in its host name."
    )
    s3_allow_http: bool = Field(
        default=False, description="Whether s3_endpoint may be http://, so that nothing is encrypted on the way."
    )

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
        default=0, description="TCP port on which the driver waits for executors; 0 = any.", examples=[7078]
    )
    block_port: Port = Field(
        default=0, description="TCP port of the driver's and the executors' block managers; 0 = any.", examples=[7079]
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

    @property
    def store(self) -> Store:
        """Where the tables are."""
        return open_store(self.table_root, self.store_options)

    @property
    def deployment(self) -> Deployment:
        """Where Spark runs, and what it is told."""
        return Deployment(
            master=self.spark_master,
            driver_memory=self.driver_memory,
            driver_host=self.driver_host,
            driver_port=self.driver_port,
            block_port=self.block_port,
            worker_python=self.worker_python,
            worker_archive=self.worker_archive,
            options=self.spark,
        )

    @property
    def store_options(self) -> Mapping[str, str]:
        """What the store is told beside its root (Store.options); only what is not the default."""
        if not self.table_root.startswith(("s3://", "s3a://")):
            return {}
        told = {
            "endpoint": self.s3_endpoint,
            "region": self.s3_region,
            "path_style": "true" if self.s3_path_style else "",
            "allow_http": "true" if self.s3_allow_http else "",
        }
        return {name: text for name, text in told.items() if text}
