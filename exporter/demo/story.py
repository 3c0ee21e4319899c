"""How the demo tells what it does: numbered steps with their durations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from rich.console import Console

COLUMNS = 100
LINE_SECS = 10.0
"""Between two progress lines where there is no terminal to draw on."""


class Story:
    """Numbered steps with their durations, on stderr; a spinner where there is a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._steps = 0

    def say(self, text: str) -> None:
        """One line. Never wrapped: paths stay in one piece."""
        self.console.print(text, soft_wrap=True, markup=False)

    @contextmanager
    def step(self, title: str, doing: str) -> Iterator[StoryStep]:
        """A step: shown when it is done, with `step.result`; an error leaves a line too."""
        self._steps += 1
        step = StoryStep(self, f"{self._steps} {title}", doing)
        with step.display():
            try:
                yield step
            except BaseException:
                self.say(f"{step.title}: not done after {step.secs:.1f} s")
                raise
        done, result = f"{step.title} ({step.secs:.1f} s): ", step.result
        self.say(f"{done}{result}" if len(done + result) <= COLUMNS else f"{done.strip()}\n    {result}")


@dataclass
class StoryStep:
    """One step under way. result: what came of it."""

    story: Story
    title: str
    doing: str
    result: str = ""
    _began: float = field(default_factory=time.monotonic)
    _shown_at: float = field(default_factory=time.monotonic)
    _update: Callable[[str], object] = lambda text: None

    @property
    def secs(self) -> float:
        return time.monotonic() - self._began

    @contextmanager
    def display(self) -> Iterator[None]:
        """The spinner, on a terminal; elsewhere what is being done if it takes long."""
        with ExitStack() as shown:
            if self.story.console.is_terminal:
                status = shown.enter_context(self.story.console.status(f"{self.title}: {self.doing}"))
                self._update = status.update
            yield

    def progress(self, text: str) -> None:
        """How far it is; cheap enough for every poll."""
        now, text = time.monotonic(), text or self.doing
        if self.story.console.is_terminal:
            self._update(f"{self.title}: {self.secs:.0f} s, {text}")
        elif now - self._shown_at >= LINE_SECS:
            self._shown_at = now
            self.note(f"{self.secs:3.0f} s  {text}")

    def note(self, text: str) -> None:
        """One indented line that stays."""
        self.story.say(f"    {text}")
