"""The formats that the audit has an opinion on, by the name that a routing configuration has for them.

A second table beside formats/formats.py, on purpose: a format that stands only there cannot be audited, and says so.
Plain JSON is read by Spark itself; what has another format, a frame or an envelope is read in its Python workers
(readers/), which tell the SQL side what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.operate.audit.expected.json_values import JsonValues
from exporter.operate.audit.expected.told_values import ToldValues
from exporter.operate.audit.expected.values import Values
from exporter.operate.audit.readers.avro_documents import AvroValues
from exporter.operate.audit.readers.json_documents import ConnectJson, JsonDocuments, RawValues, TitledJson
from exporter.operate.audit.readers.protobuf_documents import ProtobufValues
from exporter.operate.audit.readers.reader import Reader

EXPECTED: Mapping[str, Callable[[ValueFormat], Reader]] = {
    "json": lambda form: JsonDocuments(),
    "json_schema": TitledJson,
    "connect_json": ConnectJson,
    "avro": AvroValues,
    "protobuf": ProtobufValues,
    "string": lambda form: RawValues(is_text=True),
    "bytes": lambda form: RawValues(is_text=False),
}


def reader_of(form: ValueFormat) -> Reader:
    """What reads values of a format in workers. Raises ConfigError if there is nothing."""
    found = EXPECTED.get(form.kind)
    if found is None:
        what = f"values of the format {form.kind!r} cannot be audited by this version"
        raise ConfigError(what, "audit with a later one")
    return found(form)


def by_spark(form: ValueFormat) -> bool:
    """Whether Spark reads values of a format by itself."""
    return form.kind == "json" and form.frame == "none" and form.envelope == "none"


def values_of(form: ValueFormat, number: int) -> Values:
    """The opinion on values of a format, as SQL. number: the index of the configuration. Raises ConfigError."""
    if by_spark(form):
        return JsonValues()
    reader_of(form)
    return ToldValues(number)


def check(forms: Iterable[ValueFormat]) -> None:
    """Raises ConfigError for the first format that cannot be audited, or not on this machine."""
    for form in forms:
        reader_of(form)
