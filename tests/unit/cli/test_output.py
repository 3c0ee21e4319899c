"""A verb's two answers: text or JSON, never a mixture; notes are for whoever reads along."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from exporter.cli.output import FORMAT, Output, TextOutput, counted, plain
from exporter.cli.verbs.plan import _tell
from exporter.operate.start_plan import StartPlan


@click.command()
@FORMAT
def verb(output: Output) -> None:
    """Say all that can be said."""

    def tell(text: TextOutput) -> None:
        text.line("a line")
        text.table(("name", "rows"), [("a\tb", counted(1_234))])
        text.note("a sum of the text")

    output.show({"rows": 1234}, tell)
    output.data([plain(None)])
    output.note("for both")


@pytest.mark.parametrize(
    ("flags", "stdout", "stderr"),
    [
        ([], "a line\nname\trows\na\\tb\t1,234\n", "a sum of the text\nfor both\n"),
        (["--format", "text"], "a line\nname\trows\na\\tb\t1,234\n", "a sum of the text\nfor both\n"),
        (["--format", "json"], '{"rows": 1234}\n["-"]\n', "for both\n"),
    ],
)
def test_one_of_the_two_answers_is_printed(flags: list[str], stdout: str, stderr: str) -> None:
    """JSON is a value a line, with nothing else on stdout; text of others is escaped."""
    done = CliRunner().invoke(verb, flags)
    assert (done.exit_code, done.stdout, done.stderr) == (0, stdout, stderr)


def test_only_formats_that_exist_can_be_asked_for() -> None:
    """2, and the message names them."""
    done = CliRunner().invoke(verb, ["--format", "xml"])
    assert done.exit_code == 2
    assert "'text', 'json'" in done.stderr


def test_what_goes_elsewhere_has_no_screen() -> None:
    """A pipe has no height by which rows would be left out."""
    assert TextOutput().screen() is None


def test_a_plan_tells_the_rules_of_each_type(capsys: pytest.CaptureFixture[str]) -> None:
    """In one line each, and nothing of who wrote them moves a cursor."""
    plan = StartPlan(rules={"all types": ["constant cluster = 'east'"], "order": ["where a > 0", "drop \x1b[2J"]})
    assert plan.as_dict()["rules"] == plan.rules
    _tell(plan, TextOutput(), False)
    told = capsys.readouterr().out.splitlines()
    assert told == ["all types: constant cluster = 'east'", "order: where a > 0; drop \\x1b[2J"]
