"""What a registry has beside what is recorded, for people who ask before a task is started. Records nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from exporter.core.schemas import SchemaText, called
from exporter.registry.client import connect
from exporter.registry.options import RegistryOptions
from exporter.registry.pins import Pins
from exporter.registry.protobuf import as_one_set
from exporter.registry.server import Server, whole
from exporter.registry.source import agree
from exporter.stores.store import Store


@dataclass(frozen=True)
class Version:
    """One version of a subject. state: of its id; other: another text is recorded under it."""

    id: int
    state: Literal["recorded", "new", "other"]


@dataclass(frozen=True)
class Subject:
    """versions: oldest first; none if there is no such subject. newest: the schema of the last one."""

    name: str
    versions: tuple[Version, ...] = ()
    newest: SchemaText | None = None

    def ids(self, state: str) -> str:
        """The ids in a state, as people read them."""
        return ", ".join(str(called(one.id)) for one in self.versions if one.state == state)


@dataclass(frozen=True)
class Looked:
    """url: of the server that answered. there: how many subjects it has. recorded: ids of which something is."""

    url: str
    there: int
    recorded: int
    subjects: tuple[Subject, ...]


def look(options: RegistryOptions, store: Store, wanted: Callable[[Sequence[str]], Sequence[str]]) -> Looked:
    """Ask for some of the subjects. wanted: all that there are -> those to be looked at.

    Raises RegistryUnreachable, ConfigError, and InvariantBroken for a record that is damaged.
    """
    pins = Pins(store, options.name)

    def conversation(server: Server) -> Looked:
        there = server.subjects()
        subjects = tuple(_subject(server, pins, name) for name in wanted(there))
        return Looked(server.shown, len(there), len(pins.ids()), subjects)

    return connect(options).ask(conversation)


def _subject(server: Server, pins: Pins, name: str) -> Subject:
    versions: list[Version] = []
    newest: SchemaText | None = None
    for number in server.versions(name):
        registered = server.version(name, number)
        newest = whole(server, registered)
        pinned = pins.read(registered.id)
        if pinned.text is None:
            versions.append(Version(registered.id, "new"))
        else:
            versions.append(Version(registered.id, "recorded" if agree(pinned, registered, newest) else "other"))
    if newest is not None and newest.kind == "PROTOBUF":
        newest = as_one_set(newest)
    return Subject(name, tuple(versions), newest)
