"""What a verb says, in two ways: as text for people, or as JSON for programs. Data on stdout, all else on stderr.

Tables are drawn on a terminal, and are tab-separated text elsewhere.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from exporter.text import escaped


class Output(ABC):
    """What a verb prints through. Each verb makes both of its answers known, and only one of them is printed."""

    @abstractmethod
    def data(self, value: object) -> None:
        """Print one JSON value in a line of its own. Nothing as text."""

    @abstractmethod
    def text(self, tell: Callable[[TextOutput], None]) -> None:
        """Call `tell` with the text to print to. It is not called for JSON."""

    def show(self, value: object, tell: Callable[[TextOutput], None]) -> None:
        """Print the result, or the next part of it: the value, or what `tell` makes of it."""
        self.data(value)
        self.text(tell)

    def note(self, text: str) -> None:
        """To whoever reads along, not to whoever reads the data: a line on stderr, also with JSON."""
        click.echo(text, err=True)


class JsonOutput(Output):
    """Output for programs: a line of JSON for each value."""

    def data(self, value: object) -> None:
        """Write a value as one line of JSON."""
        click.echo(json.dumps(value))

    def text(self, tell: Callable[[TextOutput], None]) -> None:
        """Does nothing: a program reads the values alone."""


class TextOutput(Output):
    """Output for people: text, without the values."""

    def data(self, value: object) -> None:
        """Does nothing: a person reads the text alone."""

    def text(self, tell: Callable[[TextOutput], None]) -> None:
        """Let the caller write its text here."""
        tell(self)

    def line(self, text: str) -> None:
        """A line as it is; the caller escapes what others wrote."""
        click.echo(text)

    def whole(self, text: str) -> None:
        """A text that has its own end of line."""
        click.echo(text, nl=False)

    def table(self, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], numbers: Sequence[int] = ()) -> None:
        """numbers: the columns that stand to the right; a table that has them is drawn without lines, to be narrow."""
        console = Console()
        if not console.is_terminal:
            for row in (columns, *rows):
                click.echo("\t".join(map(escaped, row)))
            return
        console.print(_drawn(columns, rows, numbers))

    def screen(self) -> Terminal | None:
        """The terminal on which the text is shown. None if it goes elsewhere."""
        console = Console()
        return Terminal(console) if console.is_terminal else None


class Terminal:
    """A screen of so many characters and lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.width, self.height = console.width, console.height

    def lines(self, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], numbers: Sequence[int]) -> int:
        """How many lines the table takes: long names take several each."""
        return len(self._console.render_lines(_drawn(columns, rows, numbers)))

    def clear(self) -> None:
        """Make room for the next screen."""
        self._console.clear()


OUTPUTS: dict[str, type[Output]] = {"text": TextOutput, "json": JsonOutput}

FORMAT = click.option(
    "--format", "output", type=click.Choice([*OUTPUTS]), default="text", show_default=True, help="How to print.",
    callback=lambda _context, _option, name: OUTPUTS[name](),
)  # fmt: skip
"""The command is called with `output: Output`."""


def plain(value: object) -> str:
    """As it is: an offset stands as flags and other tools take it."""
    return "-" if value is None else str(value)


def counted(number: int | None) -> str:
    """How many of something: thousands are set apart, an offset's are not."""
    return "-" if number is None else f"{number:,}"


def _drawn(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], numbers: Sequence[int]) -> Table:
    """Where the terminal is narrow, texts are folded and numbers never."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)) if numbers else Table()
    for at, column in enumerate(columns):
        right = at in numbers
        table.add_column(column, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for row in rows:
        table.add_row(*(escape(escaped(cell)) for cell in row))
    return table
