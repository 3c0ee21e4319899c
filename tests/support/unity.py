"""A stand-in for a Unity Catalog: as strict as the pages of its REST API 2.1 say, in this process.

It knows one administrator, by a token. A name is in lower case; what is required is there, and nothing else is.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"] or 0))
            try:
                if self.headers["Authorization"] != f"Bearer {served.token}":
                    _refuse(401, "UNAUTHENTICATED")
                path = urlsplit(self.path).path
                told = served.answer(self.command, path.removeprefix(API), json.loads(text) if text else None)
                status = 200
            except Refused as refused:
                status, told = refused.status, {"error_code": refused.code, "message": "refused"}
            body = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        served.url = f"http://127.0.0.1:{listening.server_port}"
        yield served
        listening.shutdown()
