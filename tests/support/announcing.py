"""Exports that announce their versions, and who is told: a web server of this machine, a reader of a topic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from exporter.task.announced import announcing
from tests.support.announced import Consumer
from tests.support.lakes import Export, messages
from tests.support.posted import answering


@contextmanager
def hook(taken: list[bytes]) -> Iterator[str]:
    """A web server of this machine; its URL."""

    def take(text: str, _headers: Mapping[str, str]) -> tuple[int, str]:
        taken.append(text.encode())
        return 200, ""

    with answering(take) as url:
        yield f"{url}of/tables"


@contextmanager
def announced(e: Export, spark: Any) -> Iterator[Any]:
    """A task that announces, as `exporter run` puts it together; not running yet."""
    settings = e.settings()
    with e.service(spark) as service, announcing(settings, settings.store, service._watch):
        yield service


def read(bodies: Iterable[bytes]) -> Consumer:
    consumer = Consumer()
    for body in bodies:
        consumer.take(body)
    return consumer


def sent(e: Export, topic: str) -> list[bytes]:
    return [message.value() for message in messages(e.kafka, topic)]


def versions_with_rows(export: Export) -> dict[str, list[int]]:
    """Table -> the versions in which the export has added rows, read from the log's files alone."""
    found: dict[str, list[int]] = {}
    for table in export.tables():
        for file in export.log(table):
            actions = [json.loads(line) for line in export.place.read(file).decode().splitlines()]
            if any(one["add"]["dataChange"] for one in actions if "add" in one):
                found.setdefault(table, []).append(int(file.name.removesuffix(".json")))
    return found
