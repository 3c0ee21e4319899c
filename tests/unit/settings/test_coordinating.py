"""The settings of coordinated commits, of valid-through and of events: what is refused, and what is shown of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.errors import ConfigError
from exporter.settings.load import load
from exporter.settings.meaning import routing
from exporter.settings.view import MASKED, setting_rows
from tests.support.settings import TOML, loaded, refused

COORDINATED = 'control_topic = "rounds"\n'
SECRET = "T0ken-of-the-hook"
TO_KAFKA = '[derive.back]\nkind = "to_kafka"\nsource = "order"\ntopic = "rounds"\n'


def test_without_them_each_task_commits_by_itself_and_tells_nobody() -> None:
    """The defaults are what there was before."""
    settings = loaded()
    assert (settings.commit_mode, settings.valid_through) == ("own", "off")
    assert (settings.control_topic, settings.events_topic, settings.events_webhook) == ("", "", None)


def test_they_decide_nothing_of_where_a_record_goes() -> None:
    """A switch between the modes is none of the routing configuration: nothing drains (protocol 5.3)."""
    every = COORDINATED + 'valid_through = "strict"\nvalid_through_time = "event"\nevents_topic = "news"\n'
    types = {"order": '{"type":"struct","fields":[]}'}
    assert routing(loaded(every), types).fingerprint() == routing(loaded(), types).fingerprint()


def test_what_waits_for_no_round_goes_by_itself_after_two() -> None:
    """And where each task commits its own, the writers of a type go together if their commit tells of a time."""
    through, age = 'valid_through = "strict"\n', "roll_age_max_secs = 7\n"
    assert (loaded(age).roll.age_max_secs, loaded(age + COORDINATED).roll.age_max_secs) == (7, 20)
    assert [loaded(lines).roll.together for lines in ("", through, through + COORDINATED)] == [False, True, False]
    assert (loaded().times_told, loaded(through).times_told) == ("", "record")


@pytest.mark.parametrize(
    ("lines", "tables", "reason"),
    [
        ('control_topic = "a b"', "", "'a b' should be a topic's name"),
        ('control_topic = "events"', "", "events is exported"),
        (COORDINATED, TO_KAFKA, "rounds is the topic of [derive.back]"),
        ('events_topic = "rounds"', TO_KAFKA, "rounds is the topic of [derive.back]"),
        ('events_topic = "events"', "", "events is exported"),
        (COORDINATED + 'events_topic = "rounds"', "", "should not be the control_topic"),
        (COORDINATED + "commit_interval_secs = 0", "", "should be greater than 0"),
        (COORDINATED + "commit_interval_secs = inf", "", "finite"),
        ('valid_through = "on"', "", "should be 'off', 'strict' or 'idle_aware'"),
        ('valid_through_time = "event"', "", "no effect without valid_through"),
        ('valid_through = "strict"\nvalid_through_property_secs = 5', "", "and control_topic"),
        ('events_webhook = "ftp://h/x"', "", "should be http://host/path or https://host/path"),
        ('events_webhook = "https:///x"', "", "should be http://host/path or https://host/path"),
        ('events_webhook = "https://h:port/x"', "", "should be http://host/path or https://host/path"),
        ('events_webhook = "https://h/a b"', "", "should be http://host/path or https://host/path"),
        ('events_webhook = "https://me@h/x"', "", "no user"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(lines: str, tables: str, reason: str) -> None:
    """Also what would come back for ever."""
    assert reason in refused(lines + "\n", tables)


def test_a_topic_of_a_pattern_is_an_exported_one() -> None:
    """What tasks say to each other would be exported, which they say to each other."""
    lines = COORDINATED.replace("rounds", "events-rounds") + 'topics_pattern = "events.*"\n'
    Path("exporter.toml").write_text(lines + TOML.replace('topics = ["events"]', ""), "utf-8")
    with pytest.raises(ConfigError, match="events-rounds is exported"):
        load(Path("exporter.toml"), {}, {})


@pytest.mark.parametrize("address", [f"https://hooks.example.com/{SECRET}", "http://127.0.0.1:8080", "http://[::1]:1/x"])
def test_a_webhook_s_address_is_shown_nowhere(address: str) -> None:
    """It may be all that somebody needs to post there."""
    settings = loaded(EXPORTER_EVENTS_WEBHOOK=address)
    assert settings.events_webhook is not None and settings.events_webhook.get_secret_value() == address
    assert next(row.value for row in setting_rows(settings) if row.name == "events_webhook") == MASKED
    assert SECRET not in repr(settings)
    assert loaded(EXPORTER_EVENTS_WEBHOOK="").events_webhook is None


@pytest.mark.parametrize("environ", [{}, {"EXPORTER_EVENTS_WEBHOOK": f"ftp://{SECRET}"}])
def test_a_webhook_s_address_is_not_in_what_is_told_of_it(environ: dict[str, str]) -> None:
    """Neither as the file has it, nor as the environment has it."""
    message = refused(f'events_webhook = "ftp://{SECRET}"\n', **environ)
    assert SECRET not in message and "events_webhook" in message.lower()
