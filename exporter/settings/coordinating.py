"""The settings of commits in rounds, of how far they reach in time and who is told: a part of the one model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from exporter.settings.reading import Reading
from exporter.settings.values import OwnTopic, Seconds, SecondsFrom0, Webhook


class Coordinating(Reading):
    """See Settings (model.py), of which it is a part."""

    commit_mode: Literal["own", "coordinated"] = Field(
        default="own",
        description="Who commits what the tasks have staged: each task what is its own, or one of them, the leader, in "
        "rounds, with one version per table for all. Where there is no leader, each task does by itself.",
    )
    control_topic: OwnTopic = Field(
        default="",
        description="Topic over which tasks tell each other of rounds and offers, with commit_mode = coordinated; of "
        "this app alone. `exporter check --create-control` makes it; nothing in it is needed for long.",
        examples=["exporter-control"],
    )
    commit_interval_secs: Seconds = Field(
        default=10,
        description="Seconds between the beginnings of two rounds, with commit_mode = coordinated. What is staged for "
        "twice as long is offered without a round; roll_age_max_secs has no effect then.",
    )
    commit_timeout_secs: Seconds = Field(
        default=30,
        description="Seconds that a task waits to hear what became of its offer, with commit_mode = coordinated; then "
        "it looks into the table's log, and commits by itself what is not there.",
    )

    valid_through: Literal["off", "strict", "idle_aware"] = Field(
        default="off",
        description="Whether commits say through which time a table is complete if records come in order: not, only "
        "where all partitions took part, or also where those that did not had nothing new.",
    )
    valid_through_time: Literal["record", "event"] = Field(
        default="record", description="Which time valid_through goes by: the records' Kafka timestamps or event times."
    )
    valid_through_property_secs: SecondsFrom0 = Field(
        default=0,
        description="Seconds between two updates of the table property exporter.valid_through, with commit_mode = "
        "coordinated; 0 = with each commit. An update makes an OPTIMIZE fail that runs meanwhile.",
    )

    events_topic: OwnTopic = Field(
        default="",
        description="Topic that gets a message of each version with rows of each table, in order, at least once.",
        examples=["exporter-events"],
    )
    events_webhook: Webhook = Field(
        default=None,
        description="Address to which the same messages are posted as JSON; what is behind its host is shown nowhere.",
        examples=["https://hooks.example.com/exporter"],
    )
