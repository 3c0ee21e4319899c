"""The formats that the audit has an opinion on, by the name that a routing configuration has for them.

A second table beside formats/formats.py, on purpose: a format that stands only there cannot be audited, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.proof.readers.avro_documents import AvroValues
from exporter.proof.readers.json_documents import ConnectJson, JsonDocuments, RawValues, TitledJson
from exporter.proof.readers.protobuf_documents import ProtobufValues
from exporter.proof.readers.reader import ValueReader

EXPECTED: Mapping[str, Callable[[ValueFormat], ValueReader]] = {
    "json": lambda form: JsonDocuments(),
    "json_schema": TitledJson,
    "connect_json": ConnectJson,
    "avro": AvroValues,
    "protobuf": ProtobufValues,
    "string": lambda form: RawValues(is_text=True),
    "bytes": lambda form: RawValues(is_text=False),
}


def reader_of(form: ValueFormat) -> ValueReader:
    """What reads values of a format. Raises ConfigError if there is nothing."""
    found = EXPECTED.get(form.kind)
    if found is None:
        what = f"values of the format {form.kind!r} cannot be audited by this version"
        raise ConfigError(what, "audit with a later one")
    return found(form)


def check(forms: Iterable[ValueFormat]) -> None:
    """Raises ConfigError for the first format that cannot be audited, or not on this machine."""
    for form in forms:
        reader_of(form)
