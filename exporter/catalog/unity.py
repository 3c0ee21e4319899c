"""A Unity Catalog: tables as external ones of Delta, by its REST API 2.1.

    GET  /tables/<catalog>.<schema>.<name>    404 with an error code: nothing is there under this name
    POST /tables                              the table, with its columns as they are now
    POST /schemas                             once, where the schema is not there; its catalog is made by nobody here

The API has no call that gives an external table other columns. Who reads Delta takes them from the table's log.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from exporter.catalog.catalog import CatalogAddress, CatalogEntry, CatalogTable, plain_location
from exporter.catalog.hive_types import hive_type
from exporter.column.ddl import quoted
from exporter.column.spark_json import as_json, name_of
from exporter.column.types import DecimalType, Field
from exporter.errors import DependencyUnreachable
from exporter.secrets import forget_secret, keep_secret, masked

CALL_SECS = 10.0
API = "/api/2.1/unity-catalog"
SAYS_CHARS_MAX = 200
_NAMES = {"INTEGER": "INT"}
"""What it calls a type otherwise than by Spark's name in upper case."""
_HINT = "look at `catalog_uri`, at the token in `catalog_token_file`, and at its rights: USE CATALOG, CREATE TABLE"


class _Answer(NamedTuple):
    """code: what it says of an error in one word; empty if it says none."""

    status: int
    code: str
    body: Any


class UnityCatalog:
    """One schema of a catalog. Methods raise DependencyUnreachable, and what urllib3 raises."""

    def __init__(self, at: CatalogAddress) -> None:
        """at: its database is `<catalog>.<schema>`. The file of its token is read anew by each call."""
        self._catalog, _, self._schema = at.database.partition(".")
        self._url = at.uri.rstrip("/") + API
        self._token_file = at.token_file
        self._token = ""

    def find(self, name: str) -> CatalogTable | None:
        answer = self._asked("GET", f"/tables/{self._catalog}.{self._schema}.{name}")
        if answer.status == 404 and answer.code:
            return None
        found = self._taken(answer)
        return CatalogTable(str(found.get("storage_location") or ""))

    def make(self, entry: CatalogEntry) -> None:
        asked = self._table(entry)
        answer = self._asked("POST", "/tables", asked)
        if answer.status == 404 and answer.code:
            schema = {"name": self._schema, "catalog_name": self._catalog}
            self._made(self._asked("POST", "/schemas", schema))
            answer = self._asked("POST", "/tables", asked)
        self._made(answer)

    def update(self, entry: CatalogEntry) -> None:
        """Never asked: find() tells no columns."""

    def _table(self, entry: CatalogEntry) -> dict[str, Any]:
        return {
            "name": entry.name,
            "catalog_name": self._catalog,
            "schema_name": self._schema,
            "table_type": "EXTERNAL",
            "data_source_format": "DELTA",
            "columns": [_column(*one) for one in zip(count(), entry.schema.fields, as_json(entry.schema)["fields"])],
            "storage_location": plain_location(entry.location),
        }

    def _made(self, answer: _Answer) -> None:
        """Nothing if somebody was faster; servers differ in the status by which they say so."""
        if "ALREADY_EXISTS" not in answer.code:
            self._taken(answer)

    def _taken(self, answer: _Answer) -> dict[str, Any]:
        if answer.status == 200 and isinstance(answer.body, dict):
            return answer.body
        says = str(answer.body.get("message", "") if isinstance(answer.body, dict) else answer.body)
        what = " ".join(f"HTTP {answer.status} {answer.code} {says[:SAYS_CHARS_MAX]}".split())
        raise DependencyUnreachable(masked(f"{self._url}: {what}"), _HINT)

    def _asked(self, method: str, path: str, asked: object = None) -> _Answer:
        import urllib3  # 0.1 s

        headers = {"Accept": "application/json", **self._login()}
        with urllib3.PoolManager(1) as pool:
            response = pool.request(
                method, self._url + path, headers=headers, json=asked, timeout=CALL_SECS, retries=False, redirect=False
            )
        try:
            body = json.loads(response.data)
        except ValueError:
            return _Answer(response.status, "", response.data.decode("utf-8", "replace"))
        return _Answer(response.status, str(body.get("error_code", "")) if isinstance(body, dict) else "", body)

    def _login(self) -> dict[str, str]:
        if not self._token_file:
            return {}
        token = Path(self._token_file).read_text("utf-8").strip()
        if token != self._token:
            forget_secret(self._token)
            keep_secret(token)
            self._token = token
        return {"Authorization": f"Bearer {token}"}


def _column(position: int, one: Field, spark: dict[str, Any]) -> dict[str, Any]:
    """As Spark itself enters it. spark: the field in Spark's JSON."""
    kind = one.type
    name = name_of(kind).partition("(")[0].upper()
    decimals = {"type_precision": kind.digits, "type_scale": kind.scale} if isinstance(kind, DecimalType) else {}
    return {
        "name": one.name,
        "type_text": unity_type(kind),
        "type_json": json.dumps(spark),
        "type_name": _NAMES.get(name, name),
        **decimals,
        "position": position,
        "nullable": one.nullable,
    }


unity_type = replace(
    hive_type,
    scalar=lambda one: one.name if one.name == "timestamp_ntz" else hive_type.scalar(one),
    struct=lambda _, parts: f"struct<{','.join(f'{quoted(one.name)}:{part}' for one, part in parts)}>",
)
"""A type as Spark reads it again; Hive's words but for what Hive does not have."""
