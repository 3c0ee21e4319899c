"""Whether a table can be filled as declared, whoever has changed it (protocol 4.2). Pure.

Data files are written by pyarrow and named in a commit: Delta itself does not look into them. So what Delta would
enforce on a write through Spark (constraints, NOT NULL, generated columns, defaults) is not enforced on ours, and a
table that asks for it gets nothing from us until it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from exporter.column.spark_json import struct_of
from exporter.column.types import Field, StructType
from exporter.core.specs import own_spec
from offsets.table_log import TableView

CONSTRAINT = "delta.constraints."
COLUMN_MAPPING = "delta.columnMapping.mode"
WRITTEN_BY_DELTA = {
    "delta.generationExpression": "is generated",
    "delta.identity.start": "is an identity column",
    "delta.invariants": "has an invariant",
    "CURRENT_DEFAULT": "has a default",
}
"""Metadata of a column that a writer has to honour -> what it means."""
WRITER_VERSION_MAX = 7
KNOWN_FEATURES = frozenset(
    {
        "appendOnly",
        "allowColumnDefaults",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "rowTracking",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "vacuumProtocolCheck",
        "variantType",
        "variantType-preview",
        "variantShredding",
        "variantShredding-preview",
        "v2Checkpoint",
    }
)
"""Writer features that ask nothing of an appended file, or that are looked for in the metadata above.

A widened column is one that does not fit what is declared (schema.refuses), unless it is declared as it is now.
"""


def unfillable(view: TableView) -> str:
    """Why a table cannot be filled as declared, all reasons; empty if it can."""
    return "; ".join(_reasons(view))


def _reasons(view: TableView) -> Iterator[str]:
    for name, text in sorted(view.properties.items()):
        if name.startswith(CONSTRAINT):
            yield f"constraint {name.removeprefix(CONSTRAINT)} CHECK ({text})"
    mode = view.properties.get(COLUMN_MAPPING, "none")
    if mode != "none":
        yield f"{COLUMN_MAPPING} = {mode}"
    spec = own_spec(view)
    if spec is None:
        yield f"it is partitioned by {', '.join(view.partition_columns)}"
    ours = {"_kafka", *(column.name for column in spec.time_columns)} if spec else {"_kafka"}
    yield from _columns(one for one in struct_of(view.schema_json).fields if one.name not in ours)
    if view.writer_version > WRITER_VERSION_MAX:
        yield f"Delta writer version {view.writer_version}"
    if unknown := sorted(set(view.writer_features) - KNOWN_FEATURES):
        yield f"Delta writer feature{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}"


def _columns(fields: Iterable[Field], path: str = "") -> Iterator[str]:
    """Columns, nested ones too, that a row of ours might leave empty or would have to compute."""
    for field in fields:
        name = f"{path}{field.name}"
        if not field.nullable:
            yield f"column {name} is NOT NULL"
        for key, meaning in WRITTEN_BY_DELTA.items():
            if key in field.metadata:
                yield f"column {name} {meaning}"
        if isinstance(field.type, StructType):
            yield from _columns(field.type.fields, f"{name}.")
