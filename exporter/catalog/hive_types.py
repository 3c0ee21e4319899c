"""The columns of a table in the words of Hive, which Glue and Athena speak too. Pure."""

from __future__ import annotations

import json
from typing import Any

from exporter.catalog.catalog import Columns

_TYPES = {
    "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "timestamp_ntz": "timestamp",
    "variant": "string",
}  # fmt: skip
"""Those of Spark that Hive calls otherwise, or does not have."""


def hive_columns(schema_json: str) -> Columns:
    """Of a Spark schema."""
    return tuple((field["name"], hive_type(field["type"])) for field in json.loads(schema_json)["fields"])


def hive_type(of: Any) -> str:
    """Of one type of a Spark schema as JSON."""
    if isinstance(of, str):
        return _TYPES.get(of, of)
    if of["type"] == "array":
        return f"array<{hive_type(of['elementType'])}>"
    if of["type"] == "map":
        return f"map<{hive_type(of['keyType'])},{hive_type(of['valueType'])}>"
    fields = ",".join(f"{one['name']}:{hive_type(one['type'])}" for one in of["fields"])
    return f"struct<{fields}>"
