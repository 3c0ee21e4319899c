"""Which columns a table gets of a Protobuf schema. In the driver.

A field that no column can hold is left out, and told: its values are kept where those of unknown fields are.
"""

from __future__ import annotations

from exporter.core.schemas import SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.protobuf.descriptors import BadSchema, descriptors
from exporter.formats.protobuf.model import Descriptors
from exporter.formats.protobuf.plan import Unusable, plan_of
from exporter.formats.spark_columns import Registered, spark_fields

GOOGLE = "google.protobuf."
"""Package of the messages that come with every compiler."""


def protobuf_columns(schema: SchemaText, place: str = "", _connect: bool = False) -> Registered:
    """Those of a registered message. place: its indexes, `1.0`; empty is the first one. Raises ConfigError."""
    if schema.why:
        raise BadSchema(schema.why, "register a schema that compiles, with all that it imports")
    found = descriptors(schema.text, schema.references)
    name = found.places.get(tuple(int(index) for index in place.split(".")) if place else (0,))
    if name is None:
        raise BadSchema(f"a Protobuf schema has no message {place or '0'}", "give the file that the message is in")
    try:
        return _columns(name, found)
    except Unusable as error:
        raise BadSchema(f"message {name} has no columns: {error}", "declare what it can be, or leave it out") from None


def protobuf_file_columns(form: ValueFormat) -> dict[str, Registered]:
    """Full name -> those of each message in a format's own files that can be read; of unframed values of no message
    in particular those of the only one that stands in no other, if there is one.

    Raises ConfigError if the one that the settings name cannot, or if a file cannot be used.
    """
    made: dict[str, Registered] = {}
    outer: list[str] = []
    for file, text in form.schemas:
        try:
            found = descriptors(text)
        except BadSchema as error:
            raise ConfigError(f"schema file {file}: {error.message}", error.hint) from None
        outer += [name for place, name in found.places.items() if len(place) == 1]
        for name, message in found.messages.items():
            if name in made or message.entry or (name.startswith(GOOGLE) and name != form.message):
                continue
            try:
                made[name] = _columns(name, found)
            except Unusable as error:
                if name == form.message:
                    what = f"schema file {file}: message {name} cannot be read: {error}"
                    raise ConfigError(what, "leave out what no column can hold") from None
    if not form.has_ids and not form.message and len(outer) == 1:
        return {name: one for name, one in made.items() if name == outer[0]}
    return made


def _columns(name: str, found: Descriptors) -> Registered:
    """The columns that a message gives. Raises Unusable."""
    refused: dict[str, str] = {}
    kinds = list(plan_of(found, name, refused=refused).type)
    return Registered(name, spark_fields(kinds, refused), refused)
