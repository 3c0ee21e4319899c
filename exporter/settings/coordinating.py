"""The settings of commits in rounds, of how far they reach in time and who is told: a part of the one model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from exporter.settings.table import Part
from exporter.settings.values import OwnTopic, Seconds, SecondsFrom0, Webhook


class Coordinating(Part):
    """See Settings (model.py), of which it is a part."""

    control_topic: OwnTopic = Field(default="", examples=["exporter-control"])
    """Topic over which tasks tell each other of rounds and offers, of this app alone. Then one of them, the leader,
    commits in rounds what all have staged, with one version per table; without it, or where there is no leader, each
    task commits its own. `exporter check --create-control` makes it; nothing in it is needed for long."""
    commit_interval_secs: Seconds = 10
    """Seconds between the beginnings of two rounds, with a control_topic. What is staged for twice as long is offered
    without a round; roll_age_max_secs has no effect then. A task that has not heard for three times as long what became
    of its offer looks into the table's log, and commits by itself what is not there."""

    valid_through: Literal["off", "strict", "idle_aware"] = "off"
    """Whether commits say through which time a table is complete if records come in order: not, only where all
    partitions took part, or also where those that did not had nothing new."""
    valid_through_time: Literal["record", "event"] = "record"
    """Which time valid_through goes by: the records' Kafka timestamps or event times."""
    valid_through_property_secs: SecondsFrom0 = 0
    """Seconds between two updates of the table property exporter.valid_through, with a control_topic; 0 = with each
    commit. An update makes an OPTIMIZE fail that runs meanwhile."""

    events_topic: OwnTopic = Field(default="", examples=["exporter-events"])
    """Topic that gets a message of each version with rows of each table, in order, at least once."""
    events_webhook: Webhook = Field(default=None, examples=["https://hooks.example.com/exporter"])
    """Address to which the same messages are posted as JSON; what is behind its host is shown nowhere."""
