"""What a schema registry is asked and what it answers, whichever it is. In the driver alone.

A conversation (a schema, what it refers to, whether the registry is the one that it was) is held with one server, and
begun anew with the next one on trouble.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeVar

from exporter.core.schemas import SchemaText
from exporter.errors import ConfigError, RegistryUnreachable

CONNECT_SECS_MAX = 5.0
REFERENCES_DEEP_MAX = 50
REFERENCES_MAX = 1_000
"""Schemas that one schema may refer to, each counted as often as it is referred to."""
_FEWER = "register the schema so that it refers to fewer others"
T = TypeVar("T")
Kind = Literal["AVRO", "PROTOBUF", "JSON"]


class Reference(NamedTuple):
    """What a schema calls another one, and where that is."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class RegisteredSchema:
    """One schema as the registry gives it. id: -1 where the answer has none."""

    kind: Kind
    text: str
    references: tuple[Reference, ...] = ()
    id: int = -1


class Server(Protocol):
    """What answers for a registry. Every method raises RegistryUnreachable for what is no answer."""

    @property
    def shown(self) -> str:
        """Its address, without credentials."""
        ...

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """The schema of an id, or of a GUID's number; None if the registry says that there is none."""
        ...

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """One version of a subject, also one that was deleted since: it may be referred to for ever."""
        ...

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject; none if there is no such subject."""
        ...

    def subjects(self) -> list[str]:
        """The names of all subjects."""
        ...

    def register(self, subject: str, kind: Kind, text: str) -> int:
        """The id of a schema under a subject, which gets it as a new version if it has not got it.

        Raises ConfigError for one that the registry refuses.
        """
        ...


@dataclass
class Client:
    """All servers of one registry; the one that answered last is asked first. For any thread."""

    servers: Sequence[Server]
    _first: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, conversation: Callable[[Server], T]) -> T:
        """What comes of a conversation with the first server that answers all of it.

        Raises RegistryUnreachable with what each said, ConfigError without a server, and what the conversation does.
        """
        if not self.servers:
            raise ConfigError("there is no schema registry to be asked", "set `[schema_registry] urls`")
        with self._lock:
            first = self._first
        said: list[str] = []
        hint = ""
        for number in [*range(first, len(self.servers)), *range(first)]:
            try:
                found = conversation(self.servers[number])
            except RegistryUnreachable as error:
                said.append(error.message)
                hint = error.hint
                continue
            with self._lock:
                self._first = number
            return found
        raise RegistryUnreachable("; ".join(said), hint)


def whole(server: Server, registered: RegisteredSchema) -> SchemaText:
    """A schema with all that it refers to, what is referred to first. Raises RegistryUnreachable."""
    return _Loading(server).schema(registered, ())


class _Loading:
    """One schema's. Versions of subjects never change, so each is asked for once."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._versions: dict[tuple[str, int], RegisteredSchema] = {}
        self._left = REFERENCES_MAX

    def schema(self, registered: RegisteredSchema, above: tuple[tuple[str, int], ...]) -> SchemaText:
        return SchemaText(
            registered.kind,
            registered.text,
            tuple((one.name, self._referred(one, above)) for one in registered.references),
        )

    def _referred(self, reference: Reference, above: tuple[tuple[str, int], ...]) -> SchemaText:
        key = (reference.subject, reference.version)
        self._left -= 1
        if key in above or self._left < 0 or len(above) >= REFERENCES_DEEP_MAX:
            what = "itself" if key in above else f"more than {REFERENCES_MAX} others, or {REFERENCES_DEEP_MAX} in a row"
            raise RegistryUnreachable(f"{self._server.shown}: {key[0]} version {key[1]} refers to {what}", _FEWER)
        if key not in self._versions:
            self._versions[key] = self._server.version(*key)
        return self.schema(self._versions[key], (*above, key))
