"""Under which version of the decoder a configuration's values are read (ROUTE, protocol 5.3). Pure.

A version counts only for the configurations in which it may give another verdict. All others keep their fingerprint:
an upgrade neither drains nor seals anything of theirs.

    1   the first one
    2   of JSON, a STRUCT may be null in which a BOOLEAN is NOT NULL; until then such a record was a dead letter
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from exporter.core.value_format import ValueFormat

FIRST_DECODER = 1
EMPTY_FLAGS = 2


def decoder_version(types: Iterable[tuple[str, str]], formats: Iterable[ValueFormat]) -> int:
    """types: event type and Spark schema JSON of its declared columns. formats: that a value may have."""
    if not any(form.is_read_as_json for form in formats):
        return FIRST_DECODER
    return EMPTY_FLAGS if any(_has_empty_flag(json.loads(schema)) for _, schema in types) else FIRST_DECODER


def _has_empty_flag(kind: Any, nullable: bool = False) -> bool:
    """Whether a BOOLEAN that is NOT NULL may have nothing to hold, as a struct that it is in is null.

    kind: a Spark type as parsed JSON. nullable: whether there may be none where this one stands.
    """
    if not isinstance(kind, dict):
        return False
    match kind.get("type"):
        case "array":
            return _has_empty_flag(kind["elementType"], kind["containsNull"])
        case "map":
            return _has_empty_flag(kind["valueType"], kind["valueContainsNull"])
    return any(
        (nullable and not field["nullable"] and field["type"] == "boolean")
        or _has_empty_flag(field["type"], nullable or field["nullable"])
        for field in kind.get("fields", ())
    )
