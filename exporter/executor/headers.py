"""Record headers on their way from Spark to the tasks: a list of names and a list of values, there one list again.

Spark measures the Arrow batch after each row. For a list of structs that costs CPU, headers or not,
and for a list column with nulls in it, it walks over all of them since the last list: quadratic in the batch.
"""

from __future__ import annotations

import pyarrow as pa

NAMES, VALUES = "header_names", "header_values"
NO_HEADERS = "CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>)"
"""What a record without headers carries; Kafka itself has no empty list of them."""


def joined(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch with the two lists (rounds/read.py), with `headers` instead, without a copy; any other batch as it is.

    Raises ValueError if the two lists do not fit together.
    """
    if NAMES not in batch.schema.names:
        return batch
    names, values = batch.column(NAMES), batch.column(VALUES)
    if not names.offsets.equals(values.offsets):
        raise ValueError("names and values of headers differ in number")
    pairs = pa.StructArray.from_arrays([names.values, values.values], names=["key", "value"])
    headers = pa.ListArray.from_arrays(names.offsets, pairs)
    return batch.drop_columns([NAMES, VALUES]).append_column("headers", headers)
