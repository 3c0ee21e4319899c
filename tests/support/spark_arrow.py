"""What Spark itself makes of a schema in Arrow, without a JVM."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
import pytest


def arrow_of_spark(schema: Any) -> pa.Schema:
    """Of a StructType; times are in UTC, which the versions of pyspark are told in two ways."""
    to_arrow = pytest.importorskip("pyspark.sql.pandas.types").to_arrow_schema
    told = {"timestamp_utc": True} if "timestamp_utc" in inspect.signature(to_arrow).parameters else {"timezone": "UTC"}
    found: pa.Schema = to_arrow(schema, **told)
    return found
