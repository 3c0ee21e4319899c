"""Where the demo plays, and who plays there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from exporter import faults
from exporter.demo.child import DemoChild
from exporter.demo.story import Story
from exporter.local.children import EXPORTER, quick_java
from exporter.local.server import CREDENTIALS


@dataclass(frozen=True)
class Stage:
    """What the steps share. endpoint: DynamoDB's, empty where it cannot run. running: ends what was started.

    registry: URL of the schema registry; empty without one. derives: whether tables are made of the tables.
    """

    folder: Path
    bootstrap: str
    endpoint: str
    records: int
    story: Story
    running: ExitStack
    registry: str = ""
    derives: bool = False

    @property
    def config(self) -> Path:
        return self.folder / "exporter.toml"

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def start(self, name: str, code: str, arguments: Sequence[str], environment: Mapping[str, str]) -> DemoChild:
        """A Python process that says what it says to <name>.log and, on stdout, to <name>.json."""
        child = DemoChild(name, code, arguments, environment, self.folder)
        self.running.callback(child.end)
        return child

    def exporter(self, name: str, *arguments: str, fault: str = "") -> DemoChild:
        """`exporter <arguments> --config ...`, with one fault point armed."""
        environment = {**quick_java(), **CREDENTIALS}
        if fault:
            environment[faults.VARIABLE] = fault
        return self.start(name, EXPORTER, [*arguments, "--config", str(self.config)], environment)
