"""The columns that follow from a schema of Kafka Connect's JSON, as its records carry it: {schema, payload}. Pure.

    int8, int16, int32; int64       INT; BIGINT               boolean, string, bytes     BOOLEAN, STRING, BINARY
    float, double                   DOUBLE                    struct, array              STRUCT, ARRAY
    Decimal                         DECIMAL of its scale      map from texts             MAP<STRING, ...>
    Date, Timestamp                 DATE, TIMESTAMP           a map with other keys      none, so in `_rescued`

With semantic types Debezium's dates, moments and zoned texts are dates and times too. connect.py says how values are
read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporter.column.types import DecimalType, Field, ListType, MapType, ScalarType, StructType, Type
from exporter.core.columns import Names, unfit
from exporter.errors import ConfigError
from exporter.formats.avro.semantic import CONNECT_DECIMAL
from exporter.formats.dead_letter import DeadLetter
from exporter.formats.envelopes.strict import parsed
from exporter.formats.schema import SCHEMA_DEPTH_MAX
from exporter.formats.spark_columns import Registered

PRECISION = "connect.decimal.precision"
PRECISION_MAX = 38
_SCALARS = {
    "int8": "integer", "int16": "integer", "int32": "integer", "int64": "long", "float": "double", "double": "double",
    "float32": "double", "float64": "double", "boolean": "boolean", "string": "string", "bytes": "binary",
}  # fmt: skip
_NAMED = {"org.apache.kafka.connect.data.Date": "date", "org.apache.kafka.connect.data.Timestamp": "timestamp"}
_DEBEZIUM = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Timestamp": "timestamp",
    "io.debezium.time.MicroTimestamp": "timestamp",
    "io.debezium.time.NanoTimestamp": "timestamp",
    "io.debezium.time.ZonedTimestamp": "timestamp",
}
VARIABLE = "io.debezium.data.VariableScaleDecimal"


def connect_columns(text: bytes, debezium: bool) -> Registered:
    """Those of one schema, as it was sent. debezium: whether its types are honoured. Raises ConfigError."""
    try:
        schema = parsed(text)
    except DeadLetter as error:
        raise ConfigError(f"a schema of Connect's JSON cannot be used: {error}", "declare the columns") from error
    walk = _Walk({**_NAMED, **_DEBEZIUM} if debezium else _NAMED, debezium)
    name = schema.get("name")
    fields = walk.fields(schema.get("fields"), "$", 1, top=True) if schema.get("type") == "struct" else ()
    return Registered(name if type(name) is str else "", fields, walk.refused)


class _Walk:
    """From schemas to types. refused: path -> why there is no column, grows."""

    def __init__(self, named: Mapping[str, str], debezium: bool) -> None:
        self._named = named
        self._debezium = debezium
        self.refused: dict[str, str] = {}

    def fields(self, told: Any, path: str, depth: int, top: bool = False) -> tuple[Field, ...]:
        """The columns of a struct's fields; what gives none is left out."""
        made: list[Field] = []
        names = Names(())
        for one in told if type(told) is list else ():
            name = one.get("field") if type(one) is dict else None
            if type(name) is not str:
                continue
            if unfit(name, top=top) or names.clash(name):
                self.refused[f"{path}.{name}"] = "no column can have this name beside the others"
                continue
            kind = self.kind(one, f"{path}.{name}", depth + 1)
            if kind is not None:
                names.add(name)
                made.append(Field(name, kind))
        return tuple(made)

    def kind(self, schema: Any, path: str, depth: int) -> Type | None:
        """None if there is none."""
        found = self._kind(schema, path, depth) if type(schema) is dict and depth <= SCHEMA_DEPTH_MAX else None
        if found is None:
            self.refused.setdefault(path, "no column can hold it")
        return found

    def _kind(self, schema: Mapping[str, Any], path: str, depth: int) -> Type | None:
        kind, name = schema.get("type"), schema.get("name")
        if name == CONNECT_DECIMAL and kind == "bytes":
            return decimal_type(schema.get("parameters"))
        if name == VARIABLE and self._debezium:
            return None
        if type(name) is str and name in self._named:
            return ScalarType(self._named[name])
        if kind == "struct":
            fields = self.fields(schema.get("fields"), path, depth)
            return StructType(fields) if fields else None
        if kind == "array":
            inner = self.kind(schema.get("items"), f"{path}[]", depth + 1)
            return inner and ListType(inner)
        if kind == "map":
            keys = schema.get("keys")
            if type(keys) is not dict or keys.get("type") != "string":
                return None
            inner = self.kind(schema.get("values"), f"{path}{{}}", depth + 1)
            return inner and MapType(ScalarType("string"), inner)
        return ScalarType(_SCALARS[kind]) if type(kind) is str and kind in _SCALARS else None


def decimal_type(parameters: Any) -> DecimalType | None:
    """The type of Connect's Decimal with these parameters, of 38 digits if they say no precision; None if no column
    has their scale."""
    told = parameters if type(parameters) is dict else {}
    try:
        scale, precision = int(told["scale"]), int(told.get(PRECISION, PRECISION_MAX))
    except (KeyError, TypeError, ValueError):
        return None
    return DecimalType(precision, scale) if 0 <= scale <= precision <= PRECISION_MAX and precision else None
