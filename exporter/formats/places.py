"""Which record of its schema each framed value is, and which values say that there is none. Runs on Spark executors.

    Protobuf    `1.0`: the message's indexes in its file
    Avro        `1`: the number of the branch, of a schema that is a union at its root
    JSON        `1`: the number of the choice, of a schema that is one of several objects

A schema that describes one record alone has no places. What a value says that is damaged is for its format to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from exporter.arrow.rows import nulled
from exporter.core.schemas import KnownSchemas
from exporter.core.value_format import ValueFormat
from exporter.formats.avro.writers import Writers
from exporter.formats.frames import HEAD, message_places, with_values
from exporter.formats.json_schema.roots import choices, chosen

Places = np.ndarray
"""A text per value, as objects; empty for the first record, or the only one."""


def _branches(values: pa.BinaryArray, ids: np.ndarray, form: ValueFormat, schemas: KnownSchemas) -> Places | None:
    rows, numbers = Writers(form, schemas).branches(values, np.flatnonzero(ids >= 0))
    if not len(rows):
        return None
    places = np.full(len(ids), "", object)
    for number in np.unique(numbers[numbers >= 0]).tolist():
        places[rows[numbers == number]] = str(number)
    return places


def _chosen(values: pa.BinaryArray, ids: np.ndarray, form: ValueFormat, schemas: KnownSchemas) -> Places | None:
    of_ids = {one: choices(text) for one in np.unique(ids).tolist() if (text := schemas.text(one)) is not None}
    if not any(of_ids.values()) or form.envelope != "none":
        return None
    places = np.full(len(ids), "", object)
    for row, schema_id in enumerate(ids.tolist()):
        if some := of_ids.get(schema_id):
            number = chosen(some, values[row].as_py()[HEAD:])
            places[row] = "" if number is None else str(number)
    return places


_PLACES: Mapping[str, Callable[[pa.BinaryArray, np.ndarray, ValueFormat, KnownSchemas], Places | None]] = {
    "protobuf": lambda values, ids, form, schemas: message_places(values, ids),
    "avro": _branches,
    "json_schema": _chosen,
}


def places_of(values: pa.BinaryArray, ids: np.ndarray, form: ValueFormat, schemas: KnownSchemas) -> Places | None:
    """ids: of the schema of each value, -1 without one. None: all are of the first record."""
    found = _PLACES.get(form.kind)
    return None if found is None else found(values, ids, form, schemas)


def emptied(batch: pa.RecordBatch, form: ValueFormat, schemas: KnownSchemas) -> pa.RecordBatch:
    """The batch with null for each value that says that there is none: the null of a union at its schema's root."""
    if form.kind != "avro" or not (form.has_ids or form.schemas):
        return batch
    values = batch.column("value")
    rows = Writers(form, schemas).nulls(values)
    return with_values(batch, nulled(values, rows)) if len(rows) else batch
