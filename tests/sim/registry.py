"""The schema registry: what it has under an id, and since when; and what is decided of ids, as the oracle reads it.

    a record names an id ── the registry has it from before, some time later, or never; now and then it has lost all
    a decision is recorded ── its file says: a text, or unknown up to an offset of each partition

What the product makes of the registry's answers is its own code (exporter/registry/source.py). SCHEMA: what is said to
be unknown was asked for long enough, and not registered long ago, whatever the registry has lost since; nothing is said
of records that are still to come; and no text is followed by more.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from exporter.errors import RegistryUnreachable
from exporter.registry.server import Client, Kind, RegisteredSchema
from exporter.registry.source import Registry
from exporter.settings.model import Settings
from exporter.workbench import registry_options
from tests.sim.expected import HAS_TEXT, UNKNOWN, Broken, Partition
from tests.sim.features import UNKNOWN_SECS
from tests.sim.network import REGISTRY, Network

if TYPE_CHECKING:
    from tests.sim.world import World

PINS = "lake/_schemas.pins/default/"
"""Where it is recorded what is decided of ids."""
LOST_SECS = 120.0
"""So often it has lost all."""
NEW_SECS = 40.0
"""After so long records may have one id more."""
LATE = (float("-inf"), float("-inf"), 3.0, 15.0, 60.0, float("inf"))
"""How long after its first record an id is registered."""
OTHER = 0
"""An id that no record has."""
LONG_SECS = 60.0
"""Whoever is told that an id is unknown may record it as late as that."""


@dataclass
class Content:
    """What the registry has. named: id -> when a record first named it; since: from when on it is there. lost_until:
    till then nothing is."""

    named: dict[int, float] = field(default_factory=dict)
    since: dict[int, float] = field(default_factory=lambda: {OTHER: float("-inf")})
    lost_until: float = float("-inf")

    def names(self, rng: Random, now: float) -> int:
        """The id of a record that is made now."""
        number = 1 + rng.randrange(1 + int(now / NEW_SECS))
        if number not in self.named:
            self.named[number], self.since[number] = now, now + rng.choice(LATE)
        return number

    def has(self, schema_id: int, now: float) -> bool:
        return self.since.get(schema_id, float("inf")) <= now and now >= self.lost_until


class SimServer:
    """What answers for it."""

    shown = "sim://registry"

    def __init__(self, content: Content, network: Network) -> None:
        self._content = content
        self._network = network

    def _asked(self, schema_id: int) -> bool:
        kernel = self._network.kernel
        return self._network.read(
            REGISTRY, lambda: self._content.has(schema_id, kernel.now), lambda what: RegistryUnreachable(what)
        )

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        return RegisteredSchema("JSON", json.dumps({"title": f"{schema_id}"})) if self._asked(schema_id) else None

    def subjects(self) -> list[str]:
        """One, of a schema that no record here has."""
        return ["other"] if self._asked(OTHER) else []

    def version(self, subject: str, version: int) -> RegisteredSchema:
        raise AssertionError(f"no schema here refers to another one: {subject} {version}")

    def versions(self, subject: str) -> list[int]:
        raise AssertionError(f"no subject is named by the settings: {subject}")

    def register(self, subject: str, kind: Kind, text: str) -> int:
        raise AssertionError(f"nobody registers anything: {subject} {kind} {text}")


class SchemaRegistry:
    """One world's, and what is decided of its ids, by the files that say so."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._content = Content()
        self._through: dict[int, dict[Partition, int]] = defaultdict(dict)
        self._texts: set[int] = set()

    def begin(self) -> None:
        """From now on records name ids."""
        world = self._world
        world.broker.schema = lambda: self._content.names(world.kernel.rng, world.kernel.now)
        world.oracle.topics.decided = self._of
        world.kernel.after(LOST_SECS * world.kernel.rng.random(), self._loses)

    def opened(self, settings: Settings) -> Registry:
        """A process's end of it."""
        client = Client([SimServer(self._content, self._world.network)])
        return Registry(registry_options(settings), settings.store, False, client)

    def _loses(self) -> None:
        """It has nothing for a time: as one that was started anew, with another disk."""
        world = self._world
        if not world.quiet:
            secs = world.kernel.rng.choice((3.0, 15.0, 40.0))
            world.say(f"the registry has lost all for {secs} s")
            world.seen.faults["registry lost all"] += 1
            self._content.lost_until = world.kernel.now + secs
            world.kernel.after(world.kernel.rng.expovariate(1 / LOST_SECS), self._loses)

    def _of(self, schema_id: int, partition: Partition, offset: int) -> str:
        """HAS_TEXT, UNKNOWN, or empty: nothing is decided of such a record."""
        if self._through[schema_id].get(partition, -1) >= offset:
            return UNKNOWN
        return HAS_TEXT if schema_id in self._texts else ""

    def written(self, path: str, body: bytes) -> None:
        """A decision is recorded."""
        world, schema_id, told = self._world, int(path.removeprefix(PINS).partition("/")[0]), json.loads(body)
        world.say(f"of schema {schema_id} is decided: {told['decision']} {told.get('through', '')}")
        try:
            world.oracle.topics.decides(schema_id, lambda: self._take(schema_id, told))
        except Broken as broken:
            world.wrong(broken)

    def _take(self, schema_id: int, told: Mapping[str, Any]) -> None:
        if schema_id in self._texts:
            raise Broken(f"SCHEMA: more is said of {schema_id}, which has a text")
        if told["decision"] == HAS_TEXT:
            self._texts.add(schema_id)
            return
        now, content = self._world.kernel.now, self._content
        if (there := now - content.since[schema_id]) > LONG_SECS:
            raise Broken(f"SCHEMA: {schema_id} is said to be unknown, and was registered {there:.0f} s ago")
        if (asked := now - content.named[schema_id]) < UNKNOWN_SECS:
            raise Broken(f"SCHEMA: {schema_id} is said to be unknown, {asked:.0f} s after its first record")
        for topic, offsets in told["through"].items():
            for number, through in offsets.items():
                partition = topic, int(number)
                if through >= (end := self._world.oracle.topics.of[partition].end):
                    raise Broken(f"SCHEMA: {schema_id} is unknown through {partition} {through}, which ends at {end}")
                self._through[schema_id][partition] = max(through, self._through[schema_id].get(partition, -1))
