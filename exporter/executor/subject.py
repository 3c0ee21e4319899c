"""In which rows a subject stands, where Spark's own functions do not tell (core/subject.py). On Spark executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from exporter.arrow.own_columns import PLACES
from exporter.arrow.spark_types import as_ddl
from exporter.core.subject import DataSubject, Path, text_in

TEXT = "_text"
PLACES_DDL = as_ddl(PLACES)


def in_texts(
    subject: DataSubject, paths: Sequence[Path], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow: PLACES of the rows in whose TEXT, which is JSON, the subject stands at a path."""
    for batch in batches:
        found = [subject.is_in_json(text, paths) for text in batch.column(TEXT).to_pylist()]
        yield batch.filter(pa.array(found, pa.bool_())).select(PLACES.names)


def in_letters(subject: DataSubject, unseen: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same of dead letters: in value, key or headers. unseen: an accumulator, of values that are no text."""
    for batch in batches:
        values, keys, headers = (batch.column(name).to_pylist() for name in ("value", "key", "headers"))
        found = []
        for value, key, some in zip(values, keys, headers, strict=True):
            letters = [value, key, *(header["value"] for header in some or ())]
            found.append(any(one is not None and subject.is_in_letter(one) for one in letters))
            unseen.add(int(not found[-1] and value is not None and text_in(value) is None))
        yield batch.filter(pa.array(found, pa.bool_())).select(PLACES.names)
