"""The formats that there are, by their kind (core/value_format.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from exporter.core.schemas import NO_SCHEMAS, KnownSchemas
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.avro.format import Avro
from exporter.formats.envelopes.texts import EnvelopedTexts
from exporter.formats.format import Format
from exporter.formats.json.format import Json
from exporter.formats.json_schema.format import JsonSchema
from exporter.formats.protobuf.format import Protobuf
from exporter.formats.raw.format import Raw
from exporter.formats.unframed import Unframed

FORMATS: Mapping[str, Callable[[ValueFormat, KnownSchemas], Format]] = {
    "json": lambda form, schemas: _texts(form),
    "connect_json": lambda form, schemas: _texts(form),
    "avro": Avro,
    "protobuf": Protobuf,
    "json_schema": JsonSchema,
    "string": lambda form, schemas: Raw(form),
    "bytes": lambda form, schemas: Raw(form),
}


def format_of(form: ValueFormat, schemas: KnownSchemas = NO_SCHEMAS) -> Format:
    """What reads values of a format. Raises ConfigError."""
    found = FORMATS.get(form.kind)
    if found is None:
        raise ConfigError(
            f"values are of the format {form.kind!r}, which this version does not know",
            f"it knows {', '.join(sorted(FORMATS))}: run the version that this configuration was recorded by",
        )
    return found(form, schemas)


def _texts(form: ValueFormat) -> Format:
    """JSON, in what stands around it."""
    if form.kind == "connect_json" or form.envelope != "none":
        return EnvelopedTexts(Json(), form)
    return Unframed(Json()) if form.is_framed else Json()
