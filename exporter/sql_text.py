"""Names and texts in the SQL that Spark is given: the one place that quotes them.

A value of data is none of SQL's text: it goes by a Column. Where none is taken, as in the condition of an OPTIMIZE or
a MERGE (Delta takes no parameters there from Spark 4.2 on), it is a literal() of hexadecimal digits, in which no quote,
no backslash and no `${...}` can mean anything, whatever a session's settings say of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

_PLAIN = re.compile(r"[A-Za-z0-9 _.,:/+-]*\Z")
"""Texts that stand as they are: for the eyes of a person who reads the SQL."""


def column(name: str) -> str:
    """A top-level column, or a path, as SQL has it."""
    return "`" + name.replace("`", "``") + "`"


def quoted(path: str) -> str:
    """A column's path, dotted, as SQL has it."""
    return ".".join(map(column, path.split(".")))


def literal(text: str) -> str:
    """A text as SQL has it."""
    if _PLAIN.match(text):
        return f"'{text}'"
    return f"CAST(X'{text.encode('utf-8', 'surrogatepass').hex().upper()}' AS STRING)"


def literals(texts: Iterable[str]) -> str:
    """Texts as SQL has them, with commas between."""
    return ", ".join(map(literal, texts))


def json_setting(said: Mapping[str, Any]) -> str:
    """JSON as the value of one of Spark's settings, in each of which `${env:X}` is replaced, whatever is switched off.

    Whoever parses it has the text as it was.
    """
    return json.dumps(dict(said), separators=(",", ":"), sort_keys=True).replace("$", r"\u0024")
