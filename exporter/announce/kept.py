"""Pointers as texts beside the offsets of a consumer group that has no members; nothing of them is in any table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any

from exporter.announce.pointers import Pointer, Pointers, pointers_of, texts_of
from exporter.announce.seams import Trouble
from exporter.errors import ExporterError
from exporter.kafka.group_texts import GroupTexts
from exporter.kafka.topics import TopicReader, partitions_of
from offsets.ranges import TopicPartition
from offsets.selection import Topics


class GroupPointers:
    """Those of one sink, on partitions of the exported topics, the first ones first. For one thread.

    Nothing is asked before the first call. Where there are more topics later, what stands elsewhere is found as well.
    """

    def __init__(self, client_options: Mapping[str, Any], group: str, topics: Topics) -> None:
        """client_options: keywords of kafka-python's clients."""
        self._client = client_options
        self._name = group
        self._topics = topics
        self._group: GroupTexts | None = None
        self._places: list[TopicPartition] = []
        self._used: set[TopicPartition] = set()

    def load(self) -> dict[str, Pointer] | None:
        try:
            texts = self._texts().read()
        except ExporterError as error:
            raise Trouble(error.message) from error
        self._used = {tp for tp, text in texts.items() if text}
        return pointers_of(texts.values())

    def save(self, pointers: Pointers) -> Collection[str]:
        try:
            places = self._places = self._places or self._look()
            texts, left_out = texts_of(pointers, len(places))
            told = dict(zip(places, texts, strict=False))
            self._texts().write({**{tp: "" for tp in self._used if tp in places}, **told})
        except ExporterError as error:
            self._places = []
            raise Trouble(error.message) from error
        self._used = {*told}
        return left_out

    def close(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            group.close()

    def _texts(self) -> GroupTexts:
        """The group's texts, opened at the first call. Raises BrokerSilent."""
        self._group = self._group or GroupTexts(self._client, self._name)
        return self._group

    def _look(self) -> list[TopicPartition]:
        """Raises BrokerSilent, and what a login raises."""
        with closing(TopicReader(self._client, self._topics, "read_committed")) as reader:
            places = partitions_of(reader.identities())
        if not places:
            raise Trouble(f"no topic is there whose partitions could keep what group {self._name} is told")
        return places
