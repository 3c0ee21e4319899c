"""Decisions on ids of schemas: what is recorded first, then the registry, and its answer recorded (protocol 3.8).

    look_up ── the files, read anew ──────────────── somebody has decided ──> that
                   │ nothing there
               the registry: a text ── and it knows ids as they were recorded ──> recorded, then used
                   │                     └ another text under such an id: InvariantBroken
                   ├── 40403, the same registry ── for `unknown_after_secs` ────> recorded as unknown
                   └── trouble ─────────────────────────────────────────────────> RegistryUnreachable

A record that begins like one with an id, by chance or on purpose, must not stop its partition, and each decision on
its id lets pass what could be read by then. So after the first one, which takes its time, others follow sooner, with a
pause that grows. In the driver, from any thread; whoever looks up an id waits for another who does.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from exporter import threads
from exporter.core.backoff import Backoff
from exporter.core.schemas import GUID, Decision, KnownSchemas, SchemaText, UnknownId, called, can_be
from exporter.errors import InvariantBroken, RegistryUnreachable
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.registry.client import connect
from exporter.registry.options import RegistryOptions
from exporter.registry.pins import NOTHING, PinnedId, Pins
from exporter.registry.protobuf import as_one_set, taken_up
from exporter.registry.server import Client, RegisteredSchema, Server, whole
from exporter.stores.store import Store
from offsets import Invariant
from offsets.ranges import TopicPartition

log = get_logger(__name__)

PAUSE = Backoff(1.0, 30.0)
"""Between two decisions that one id is unknown, after the first."""
ASK_SECS = 1.0
"""Until a registry that does not know an id is asked again."""
_SOMETHING = RegisteredSchema("AVRO", "")
"""An answer that needs nothing to be believed."""
VOUCHERS = 3
"""Recorded ids that are asked for to see whether a registry is the one that it was; one of them may be deleted."""


@dataclass
class _Waiting:
    """An id that the registry does not know, as yet. Monotonic seconds."""

    since: float
    asked: float


@dataclass
class _Book:
    """What is decided about one registry's ids, as far as it was read. Changed under `lock`."""

    pins: Pins
    lock: AbstractContextManager[Any] = field(default_factory=threads.lock)
    pinned: dict[int, PinnedId] = field(default_factory=dict)
    alone: dict[int, AbstractContextManager[Any]] = field(default_factory=lambda: defaultdict(threads.lock))
    waiting: dict[int, _Waiting] = field(default_factory=dict)
    decided: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    _known: KnownSchemas | None = None

    def load(self) -> None:
        """Read all decisions that are recorded."""
        read = {schema_id: self.pins.read(schema_id) for schema_id in self.pins.ids()}
        self.pins.settle([*read])
        found = {schema_id: _usable(one) for schema_id, one in read.items()}
        with self.lock:
            self.pinned = {schema_id: one for schema_id, one in found.items() if one.count}

    def refresh(self, schema_id: int) -> PinnedId | None:
        """Read an id's files again; None if they say nothing new."""
        found = self.pins.read(schema_id)
        if found.count <= self.pinned.get(schema_id, NOTHING).count:
            return None
        self.pins.settle([schema_id])
        return self.keep(schema_id, found)

    def keep(self, schema_id: int, found: PinnedId) -> PinnedId:
        found = _usable(found)
        with self.lock:
            self.pinned[schema_id] = found
            self.waiting.pop(schema_id, None)
            self._known = None
        return found

    def known(self) -> KnownSchemas:
        with self.lock:
            if self._known is None:
                self._known = KnownSchemas({schema_id: one.decisions for schema_id, one in self.pinned.items()})
            return self._known

    def vouchers(self, guids: bool) -> list[tuple[int, PinnedId]]:
        """Some ids with a text, or GUIDs; the other kind where there are none. GUIDs say nothing of what ids mean now,
        and ids nothing of whether a registry has GUIDs."""
        with self.lock:
            every = [(schema_id, one) for schema_id, one in self.pinned.items() if one.text]
        found = [one for one in every if (one[0] >= GUID) == guids] or every
        return random.sample(found, min(VOUCHERS, len(found)))

    def lock_of(self, schema_id: int) -> AbstractContextManager[Any]:
        with self.lock:
            return self.alone[schema_id]


class Registry:
    """The decisions on the ids of one registry, and those recorded under other names (SchemaSource)."""

    def __init__(self, options: RegistryOptions, store: Store, sync: bool = True, client: Client | None = None) -> None:
        """store: of all tables. client: the options' own without. Nothing is read or asked yet. Raises ConfigError."""
        self.options = options
        self._store, self._sync = store, sync
        self._client = client or (connect(options) if options.is_there else None)
        self._books: dict[str, _Book] = {}
        self._lock = threads.lock()

    def start(self) -> None:
        """Read what is recorded, and record all versions of the subjects that the settings name.

        A registry that does not answer stops nothing if anything is recorded. Raises RegistryUnreachable,
        InvariantBroken.
        """
        book = self._book(self.options.name)
        if self._client is None:
            return
        try:
            self._client.ask(lambda server: self._look_around(server, book))
        except RegistryUnreachable as error:
            if not book.pinned:
                raise
            log.warning(Event.REGISTRY_SILENT, error=error.message, ids=len(book.pinned))

    def known(self, registry: str) -> KnownSchemas:
        """All that is recorded and has been read by now; the files are read where this is the first question."""
        return self._book(registry).known()

    def look_up(
        self, registry: str, schema_id: int, ends: Mapping[TopicPartition, int], *, now: float
    ) -> Decision | None:
        """Implements `SchemaSource.look_up`: what is decided of an id by now."""
        book = self._book(registry)
        with book.lock_of(schema_id):
            if (found := book.refresh(schema_id)) is not None:
                return found.decisions[-1]
            known = book.pinned.get(schema_id, NOTHING)
            if known.text is not None:
                return known.text
            if not can_be(schema_id):
                return UnknownId({})
            self._require(registry, schema_id)
            if (wait := self._wait(book, schema_id, now)) is None:
                return None
            answer = self._asked(book, schema_id)
            if answer is not None:
                return self._pin(book, schema_id, *answer)
            if self.options.unknown_schema_id == "stall":
                raise RegistryUnreachable(
                    f"the registry knows no id {called(schema_id)}, and with unknown_schema_id = stall they wait",
                    "register the schema under that id, or set `[schema_registry] unknown_schema_id = dead_letter`",
                )
            waiting = book.waiting.setdefault(schema_id, _Waiting(now, now))
            waiting.asked = now
            return self._unknown(book, schema_id, ends) if now - waiting.since >= wait else None

    def verify(self) -> None:
        """Implements `SchemaSource.verify`: recorded schemas are those of the registry."""
        if self._client is None:
            return
        book = self._book(self.options.name)
        try:
            self._client.ask(lambda server: self._require_same(server, book, _SOMETHING))
        except RegistryUnreachable:
            return

    def _book(self, registry: str) -> _Book:
        with self._lock:
            book = self._books.get(registry)
            if book is None:
                book = _Book(Pins(self._store, registry, self._sync))
                book.load()
                self._books[registry] = book
            return book

    def _require(self, registry: str, schema_id: int) -> None:
        """Raises RegistryUnreachable where nobody can be asked."""
        if registry != self.options.name:
            raise RegistryUnreachable(
                f"nothing is recorded of id {called(schema_id)} of the registry {registry}, which is asked no longer",
                f"set `[schema_registry] name = {registry}` and its urls until all that it was for is exported",
            )
        if self._client is None:
            raise RegistryUnreachable(
                f"nothing is recorded of the schema id {called(schema_id)}, and there is no registry to be asked",
                "set `[schema_registry] urls`",
            )

    def _wait(self, book: _Book, schema_id: int, now: float) -> float | None:
        """For how long the registry has to say that it knows no such id; None if it has just said so."""
        wait = self.options.unknown_after_secs
        if book.pinned.get(schema_id, NOTHING).unknown:
            wait = min(wait, PAUSE.after(book.decided[schema_id]))
        waiting = book.waiting.get(schema_id)
        if waiting is not None and now - waiting.since < wait and now - waiting.asked < ASK_SECS:
            return None
        return wait

    def _asked(self, book: _Book, schema_id: int) -> tuple[RegisteredSchema, SchemaText] | None:
        """What the registry has under an id; None if it definitely has nothing."""

        def conversation(server: Server) -> tuple[RegisteredSchema, SchemaText] | None:
            registered = server.schema(schema_id)
            self._require_same(server, book, registered, schema_id >= GUID)
            return None if registered is None else (registered, whole(server, registered))

        if self._client is None:
            raise AssertionError("asked without a client")
        return self._client.ask(conversation)

    def _require_same(self, server: Server, book: _Book, answer: RegisteredSchema | None, guid: bool = False) -> None:
        """Raises RegistryUnreachable or InvariantBroken for a registry that is not the one that it was.

        guid: the answer is about one.
        """
        vouchers = book.vouchers(guid)
        gone = [schema_id for schema_id, pinned in vouchers if not self._is_same(server, schema_id, pinned)]
        if vouchers and len(gone) == len(vouchers):
            ids = ", ".join(str(called(one)) for one in sorted(gone))
            raise RegistryUnreachable(
                f"{server.shown} no longer knows ids that it gave ({ids}); so that it knows no id means nothing",
                "bring its content back, or give it another `[schema_registry] name` if it is another registry",
            )
        if not vouchers and answer is None and not server.subjects():
            raise RegistryUnreachable(
                f"{server.shown} has no schemas at all; so what it does not know means nothing",
                "check which registry `[schema_registry]` names",
            )

    def _is_same(self, server: Server, schema_id: int, pinned: PinnedId) -> bool:
        """Whether a server knows an id as it was recorded; False if it does not know it."""
        registered = server.schema(schema_id)
        if registered is not None:
            self._compare(server, schema_id, pinned, registered)
        return registered is not None

    def _compare(self, server: Server, schema_id: int, pinned: PinnedId, registered: RegisteredSchema) -> None:
        """Raises InvariantBroken if an id has another text than was recorded."""
        if pinned.text is None or agree(pinned, registered):
            return
        if registered.kind == "PROTOBUF" and agree(pinned, registered, whole(server, registered)):
            return
        raise InvariantBroken(
            Invariant.ROUTE,
            f"{server.shown} has another schema under id {called(schema_id)} than was recorded in "
            f"{self._store.uri()} for the registry {self.options.name}",
            "it was wiped and filled anew, or is another one: export what was written with the old ids while the old "
            "content is there, or take another `[schema_registry] name`, under which its ids are recorded anew",
        )

    def _look_around(self, server: Server, book: _Book) -> None:
        """All versions of all subjects are recorded, once nothing that is recorded is contradicted."""
        if not book.pinned:
            server.subjects()  # so that a wrong address is told at once
        self._require_same(server, book, _SOMETHING)
        new: dict[int, RegisteredSchema] = {}
        for subject in self.options.subjects:
            for version in server.versions(subject):
                registered = server.version(subject, version)
                if registered.id < 0:
                    raise RegistryUnreachable(f"{server.shown} gives no id of {subject} version {version}")
                pinned = book.pinned.get(registered.id, NOTHING)
                if pinned.text is None:
                    new[registered.id] = registered
                else:
                    self._compare(server, registered.id, pinned, registered)
        for schema_id, registered in new.items():
            self._pin(book, schema_id, registered, whole(server, registered))

    def _pin(self, book: _Book, schema_id: int, registered: RegisteredSchema, schema: SchemaText) -> SchemaText:
        """Record a text; raises InvariantBroken if somebody recorded another one."""
        made = as_one_set(schema) if registered.kind == "PROTOBUF" else schema
        pinned = book.keep(schema_id, book.pins.add(schema_id, made, registered.text))
        if not agree(pinned, registered, schema):
            raise InvariantBroken(
                Invariant.ROUTE,
                f"the registry {self.options.name} gave two tasks different schemas under id {called(schema_id)}",
                "each of `[schema_registry] urls` has to be of the same registry",
            )
        log.info(Event.SCHEMA_PINNED, id=called(schema_id), registry=book.pins.registry, kind=registered.kind)
        return made if pinned.text is None else pinned.text

    def _unknown(self, book: _Book, schema_id: int, ends: Mapping[TopicPartition, int]) -> Decision | None:
        """Record that there is no such id, for what can be read by now. None if that is nothing."""
        through = {tp: end - 1 for tp, end in ends.items() if end > 0}
        if not through:
            return None
        found = book.keep(schema_id, book.pins.add(schema_id, UnknownId(through)))
        book.decided[schema_id] += 1
        if found.text is None:
            shown = {str(tp): offset for tp, offset in sorted(through.items())}
            log.warning(Event.SCHEMA_UNKNOWN, id=called(schema_id), registry=book.pins.registry, through=shown)
        return found.decisions[-1]


def _usable(pinned: PinnedId) -> PinnedId:
    """With the text as this version reads it."""
    return pinned if pinned.text is None else replace(pinned, text=taken_up(pinned.text))


def agree(pinned: PinnedId, registered: RegisteredSchema, schema: SchemaText | None = None) -> bool:
    """Whether what was recorded and what is registered say the same. schema: the latter with what it refers to.

    JSON may be written in any way. A registry may give a Protobuf file in another form: then the sets are compared.
    """
    if pinned.text is None or pinned.text.kind != registered.kind:
        return False
    if pinned.answer == registered.text or _equal_json(pinned.answer, registered.text):
        return True
    return registered.kind == "PROTOBUF" and schema is not None and as_one_set(schema).text == pinned.text.text


def _equal_json(one: str, other: str) -> bool:
    try:
        return _canonical(one) == _canonical(other)
    except (ValueError, RecursionError):
        return False


def _canonical(text: str) -> str:
    """In Python true is equal to 1; in a text they differ."""
    return json.dumps(json.loads(text), sort_keys=True)
