"""Whether an event type as it is sent leads to the table that a value is read for."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.shapes import Rename
from exporter.formats.said import SaidType

PLAIN = Routing(TypeFrom("json", "t"), EventTime("record"), (("a", "{}"), ("b", "{}")))
SENT = ["a", "b", "old-a", "x", None, "a"]


@pytest.mark.parametrize(("rules", "to_a", "to_b"), [
    ({}, [0, 5], [1]),
    ({"unrouted": "count"}, [0, 5], [1]),
    ({"renames": (Rename("old-(.*)", "$1"),)}, [0, 2, 5], [1]),
    ({"matches": (("a", "a|x"), ("b", ".*"))}, [0, 3, 5], [0, 1, 2, 3, 5]),
    ({"unrouted": "b"}, [0, 5], [1, 2, 3]),
    ({"renames": (Rename("a", "b"), Rename("b", "a"))}, [1], [0, 5]),
])  # fmt: skip
def test_what_is_sent_fits_where_the_rules_lead_it(rules, to_a, to_b):
    """All of a batch as each by itself; null fits nowhere."""
    routing = replace(PLAIN, **rules)
    texts = pa.array(SENT, pa.string())
    for name, rows in (("a", to_a), ("b", to_b)):
        said = SaidType(name, routing)
        wanted = [row in rows for row in range(len(SENT))]
        assert said.fitting(texts).to_pylist() == wanted
        assert said.fitting(pa.chunked_array([texts[:2], texts[2:]])).to_pylist() == wanted
        assert [said.fits(text) for text in SENT] == wanted
    assert not SaidType("a", routing).fits(7)
