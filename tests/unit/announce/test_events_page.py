"""The handbook's page of events against the code: its schema takes what is sent, and names each field of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from exporter.announce.message import Announcement, Message, Range, Skipped, as_json
from exporter.settings.load import load

PAGE = Path(__file__).parents[3] / "deploy" / "handbook" / "events.md"
COUNT, TEXT = st.integers(0, 2**63 - 1), st.text(max_size=10)
RANGES = st.builds(Range, TEXT, COUNT, COUNT, COUNT, st.integers(1, 10**9))
AFTER = st.integers(-1, 2**63 - 1)
DAYS = st.lists(st.sampled_from(["2026-01", "2026-01-31"]))
ANNOUNCED = st.builds(
    Announcement, TEXT, TEXT, COUNT, AFTER, TEXT, TEXT, TEXT, st.integers(1, 10**9),
    st.lists(RANGES, max_size=3).map(tuple), DAYS.map(tuple), TEXT, TEXT,
)  # fmt: skip
SKIPPED = st.builds(Skipped, TEXT, TEXT, COUNT, COUNT, AFTER)


def block(language: str) -> str:
    """The first block of the page in this language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    assert found is not None
    return found[1]


def schema() -> dict[str, Any]:
    return json.loads(block("json"))


@given(st.one_of(ANNOUNCED, SKIPPED))
def test_what_is_sent_is_what_the_page_says(message: Message) -> None:
    """As it is read from the bytes that are sent."""
    jsonschema.validate(json.loads(as_json(message)), schema())


@given(ANNOUNCED, SKIPPED, RANGES)
def test_the_page_names_each_field_and_no_other(announced: Announcement, skipped: Skipped, one: Range) -> None:
    """All of them are always there, so all of them are required."""
    version, lost = schema()["oneOf"]
    for described, sent in ((version, announced.as_dict()), (lost, skipped.as_dict()),
                            (version["properties"]["ranges"]["items"], vars(one))):  # fmt: skip
        assert [*described["properties"]] == described["required"]
        assert {*described["properties"]} == {*sent}


def test_the_schema_can_say_no() -> None:
    """A message of another form, or of a version without rows."""
    good = {"v": 1, "kind": "skipped", "app": "a", "table": "t", "first": 1, "version": 2, "after": 0}
    jsonschema.validate(good, schema())
    for wrong in ({"v": 2}, {"kind": "other"}, {"first": None}, {"after": -2}):
        assert not jsonschema.Draft202012Validator(schema()).is_valid({**good, **wrong})


def test_the_settings_of_the_page_are_settings(tmp_path: Path) -> None:
    """As they stand there."""
    (tmp_path / "exporter.toml").write_text(block("toml"))
    settings = load(tmp_path / "exporter.toml", {}, {})
    assert settings.events_topic == "exporter-events"
    assert settings.events_webhook is not None
