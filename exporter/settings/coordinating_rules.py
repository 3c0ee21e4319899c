"""What the settings of coordinated commits have to be to others. Pure; a part of rules.py."""

from __future__ import annotations

from exporter.settings.derive_tables import DERIVE, Derive
from exporter.settings.derive_to_kafka import ToKafkaTable
from offsets.selection import Topics


def _not_exported(topic: str, topics: tuple[str, ...], pattern: str) -> None:
    if topic in topics or (topic and pattern and Topics((), pattern).match(topic)):
        raise ValueError(f"{topic} is exported: what is said there would come to the tables")


def _not_of_a_job(topic: str, derive: Derive) -> None:
    for name, job in derive.items():
        if isinstance(job, ToKafkaTable) and topic == job.topic:
            raise ValueError(f"{topic} is the topic of [{DERIVE}.{name}]")


def _two_topics(events: str, control: str) -> None:
    if events and events == control:
        raise ValueError("should not be the control_topic")


def _time_of_something(time: str, valid_through: str) -> None:
    if time != "record" and valid_through == "off":
        raise ValueError("has no effect without valid_through")


def _property_of_something(secs: float, valid_through: str, control: str) -> None:
    if secs and (valid_through == "off" or not control):
        raise ValueError("has no effect without valid_through and control_topic")


_EXPORTED = ("topics", "topics_pattern")

COORDINATING = (
    ("control_topic", ("control_topic", *_EXPORTED), _not_exported),
    ("control_topic", ("control_topic", DERIVE), _not_of_a_job),
    ("events_topic", ("events_topic", *_EXPORTED), _not_exported),
    ("events_topic", ("events_topic", DERIVE), _not_of_a_job),
    ("events_topic", ("events_topic", "control_topic"), _two_topics),
    ("valid_through_time", ("valid_through_time", "valid_through"), _time_of_something),
    (
        "valid_through_property_secs",
        ("valid_through_property_secs", "valid_through", "control_topic"),
        _property_of_something,
    ),
)
"""As Rule (rules.py): who is blamed, whose values the check takes, the check."""
