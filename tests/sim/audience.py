"""Who is told of new versions, and what is kept of how far that went; and whether every version was told (4.13)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any

from exporter.announce.pointers import Pointer, Pointers
from exporter.announce.seams import Trouble
from tests.sim.expected import Broken
from tests.sim.network import BROKER, Network


class Audience:
    """One world's. begun: table -> the version behind which announcing began. told: table -> versions, in order."""

    def __init__(self) -> None:
        self.kept: dict[str, Pointer] | None = None
        self.begun: dict[str, int] = {}
        self.told: dict[str, list[int]] = defaultdict(list)
        self.with_rows: dict[str, list[int]] = defaultdict(list)

    def committed(self, table: str, version: int) -> None:
        """A version with rows is there."""
        self.with_rows[table].append(version)

    def keeps(self, pointers: Mapping[str, Pointer]) -> None:
        """Somebody keeps how far it has gone; the first one says where announcing begins."""
        if self.kept is None:
            self.begun = {table: pointer.looked for table, pointer in pointers.items()}
        for table, pointer in pointers.items():
            if untold := self._untold(table, pointer.announced):
                raise Broken(f"TOLD: {table} {untold[:5]} are kept as announced, and nobody was told")
        self.kept = dict(pointers)

    def hears(self, table: str, body: bytes) -> None:
        """A message. Raises Broken if one before it is missing."""
        message = json.loads(body)
        version = message["version"]
        if untold := self._untold(table, version - 1):
            raise Broken(f"TOLD: {table} {version} is told before {untold[:5]}")
        self.told[table].append(version)

    def _untold(self, table: str, through: int) -> list[int]:
        told, begun = {*self.told[table]}, self.begun.get(table, -1)
        return [one for one in self.with_rows.get(table, ()) if begun < one <= through and one not in told]

    def missing(self) -> list[str]:
        """The versions that nobody was told of: one line for each table."""
        found = {table: self._untold(table, versions[-1]) for table, versions in self.with_rows.items()}
        return [f"{table} {versions[:5]} were not announced" for table, versions in found.items() if versions]


class SimSink:
    """The end of one task. wrong: told of what is wrong."""

    def __init__(self, network: Network, audience: Audience, wrong: Callable[[Exception], None]) -> None:
        self._network = network
        self._audience = audience
        self._wrong = wrong

    def send(self, messages: Mapping[str, bytes]) -> Mapping[str, str]:
        failed = {}
        for table, body in messages.items():
            try:
                self._network.write(BROKER, lambda table=table, body=body: self._hear(table, body), Trouble)
            except Trouble as error:
                failed[table] = str(error)
        return failed

    def _hear(self, table: str, body: bytes) -> None:
        try:
            self._audience.hears(table, body)
        except Broken as broken:
            self._wrong(broken)

    def close(self) -> None:
        """Holds nothing."""


class SimPointers:
    """KeptPointers, of one task."""

    def __init__(self, network: Network, audience: Audience, wrong: Callable[[Exception], None]) -> None:
        self._network = network
        self._audience = audience
        self._wrong = wrong

    def load(self) -> dict[str, Pointer] | None:
        found: Any = self._network.read(BROKER, lambda: self._audience.kept, Trouble)
        return None if found is None else dict(found)

    def save(self, pointers: Pointers) -> Collection[str]:
        told = dict(pointers)
        self._network.write(BROKER, lambda: self._keep(told), Trouble)
        return ()

    def _keep(self, pointers: Mapping[str, Pointer]) -> None:
        try:
            self._audience.keeps(pointers)
        except Broken as broken:
            self._wrong(broken)

    def close(self) -> None:
        """Holds nothing."""
