"""A stand-in for a Unity Catalog: as strict as the pages of its REST API 2.1 say, in this process.

It knows one administrator, by a token. A name is in lower case; what is required is there, and nothing else is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.posted import serving

API = "/api/2.1/unity-catalog"
TYPES = frozenset(
    ("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING",
     "BINARY", "DECIMAL", "ARRAY", "STRUCT", "MAP")
)  # fmt: skip
TABLE = {"name", "catalog_name", "schema_name", "table_type", "data_source_format", "columns", "storage_location"}
COLUMN = {"name", "type_text", "type_json", "type_name", "position", "nullable"}
OF_DECIMALS = {"type_precision", "type_scale"}


class Refused(Exception):
    """status and error code, as the server words them."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


@dataclass
class UnityStandIn:
    """url, token_file: for whoever asks it. catalogs: name -> its schemas. tables: by catalog.schema.name."""

    token: str
    token_file: Path
    url: str = ""
    catalogs: dict[str, set[str]] = field(default_factory=dict)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)

    def answer(self, method: str, path: str, asked: Any) -> Any:
        """Raises Refused."""
        match method, *path.strip("/").split("/"):
            case ["GET", "tables", name]:
                catalog, schema, _ = name.split(".")
                self._schema(catalog, schema)
                return self.tables[name] if name in self.tables else _refuse(404, "TABLE_NOT_FOUND")
            case ["POST", "schemas"]:
                return self._make_schema(asked)
            case ["POST", "tables"]:
                return self._make_table(asked)
        return _refuse(404, "")

    def _schema(self, catalog: str, schema: str) -> None:
        if catalog not in self.catalogs:
            _refuse(404, "CATALOG_NOT_FOUND")
        if schema not in self.catalogs[catalog]:
            _refuse(404, "SCHEMA_NOT_FOUND")

    def _make_schema(self, asked: Any) -> Any:
        if {*asked} != {"name", "catalog_name"}:
            _refuse(400, "INVALID_ARGUMENT")
        schemas = self.catalogs.get(asked["catalog_name"])
        if schemas is None:
            return _refuse(404, "CATALOG_NOT_FOUND")
        if asked["name"] in schemas:
            _refuse(400, "SCHEMA_ALREADY_EXISTS")
        schemas.add(asked["name"])
        return asked

    def _make_table(self, asked: Any) -> Any:
        if {*asked} != TABLE or not asked["storage_location"].startswith(("s3://", "file:///")):
            _refuse(400, "INVALID_ARGUMENT")
        if (asked["table_type"], asked["data_source_format"]) != ("EXTERNAL", "DELTA"):
            _refuse(400, "INVALID_ARGUMENT")
        for position, column in enumerate(asked["columns"]):
            extra = OF_DECIMALS if column["type_name"] == "DECIMAL" else set()
            told = json.loads(column["type_json"])
            if {*column} != COLUMN | extra or column["position"] != position or told["name"] != column["name"]:
                _refuse(400, "INVALID_ARGUMENT")
            if column["type_name"] not in TYPES or told["type"] == "json":
                _refuse(400, "INVALID_ARGUMENT")
        self._schema(asked["catalog_name"], asked["schema_name"])
        name = ".".join((asked["catalog_name"], asked["schema_name"], asked["name"]))
        if name in self.tables:
            _refuse(409, "TABLE_ALREADY_EXISTS")
        self.tables[name] = asked
        return asked


def _refuse(status: int, code: str) -> Any:
    raise Refused(status, code)


@contextmanager
def unity(folder: Path) -> Iterator[UnityStandIn]:
    """One that listens inside the block. folder: for the file with its administrator's token."""
    served = UnityStandIn("token-of-an-administrator", folder / "token")
    served.token_file.write_text(f"{served.token}\n")

    def serve(method: str, path: str, text: str, headers: Mapping[str, str]) -> tuple[int, str]:
        try:
            if headers["Authorization"] != f"Bearer {served.token}":
                _refuse(401, "UNAUTHENTICATED")
            asked = json.loads(text) if text else None
            return 200, json.dumps(served.answer(method, urlsplit(path).path.removeprefix(API), asked))
        except Refused as refused:
            return refused.status, json.dumps({"error_code": refused.code, "message": "refused"})

    with serving(serve) as url:
        served.url = url
        yield served
