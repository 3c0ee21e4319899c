"""Settings files as users have had them before there were rules of routing: tests/golden/configurations.json.

`settings`: the file, but for where the brokers are. `schemas`: Spark schema JSON of each declared type. `stored` and
`fingerprint`: what the version before recorded in the dead letters.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.core.routing import Routing
from exporter.settings.meaning import routing
from tests.support.settings import loaded

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "golden" / "configurations.json").read_text())
ANOTHER_DECODER = ("Avro by a registry", "changes of a database")
TEXTS = ("order", "Zahlung-ä", "a", "b.c", "shop.orders", "ORDER", "xorder", "orders", "new/../one", "events", "$1", "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_settings_without_rules_mean_what_they_meant(case: dict[str, Any]) -> None:
    """An upgrade alone changes no fingerprint: else every running export would drain and seal its tables (ROUTE). Those
    whose records may get other verdicts, which nothing here reads as before, are a switch."""
    made = routing(loaded(case["settings"], plain=""), case["schemas"])
    stored = [one for one in (made, *made.earlier) if one.to_json() == case["stored"]]
    if case["name"] in ANOTHER_DECODER:
        assert stored == [] and replace(made, decoder_version=1).to_json() == case["stored"]
    else:
        assert [one.fingerprint() for one in stored] == [case["fingerprint"]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_configuration_that_was_stored_before_there_were_rules_drains_as_it_did(case: dict[str, Any]) -> None:
    """Each event type has at most the one table of its own name, all of which is decoded, and nothing shapes it."""
    stored = Routing.from_json(case["stored"])
    assert (stored.to_json(), stored.fingerprint()) == (case["stored"], case["fingerprint"])
    for text in (*TEXTS, *stored.schemas):
        own = (text,) if text in stored.schemas or stored.takes_new(text) else ()
        assert stored.tables_of(text) == own
    for name in (*stored.schemas, "new"):
        assert stored.decoded_of(name) == stored.columns_of(name) and name not in stored.shape_by_type
    assert (stored.unrouted, stored.constants) == ("dead_letter", ())
