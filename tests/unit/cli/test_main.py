"""What the verbs say: the flags that they take, totals, numbers, and what is no failure."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from exporter.cli import verbs
from exporter.cli.main import VERBS, cli
from exporter.cli.options import CODEC, EXPORTED, LAKE, LOG, MAINTAINED, VERDICTS
from exporter.cli.output import counted, plain
from exporter.cli.verbs.dead_letters import told_of
from exporter.cli.verbs.derive import DERIVED
from exporter.cli.verbs.infer import INFERRED
from exporter.operate.dead_letters.listing import Chosen, DeadLetterCount
from exporter.operate.erase.run import FoundSubject
from exporter.operate.maintain.step import MaintenanceStep, Outcome
from exporter.operate.maintain.sweep import SweptTable
from exporter.operate.repair.reading import NothingToRepair
from exporter.settings.model import SCALARS, flag
from tests.support.settings import written

TAKES = {
    "run": EXPORTED, "check": EXPORTED, "plan": EXPORTED, "config": frozenset(SCALARS), "offsets": VERDICTS | LOG,
    "status": VERDICTS | LOG | {"http_port", "http_host"}, "audit": VERDICTS, "sweep": LAKE,
    "maintain": LAKE | MAINTAINED | CODEC, "backfill": VERDICTS | CODEC, "erase": LAKE | CODEC | DERIVED,
    "report": LAKE | {"isolation"},
    "dead-letters list": LAKE, "dead-letters show": LAKE, "dead-letters replay": VERDICTS | CODEC,
    "repair": VERDICTS | LOG | CODEC | {"first_position", "type_widening"}, "infer": INFERRED, "schema": LAKE,
    "derive run": LAKE | CODEC | {"derive_cron", "give_up_secs", "stop_budget_secs"},
    "derive plan": LAKE, "derive status": LAKE, "derive audit": LAKE,
    "catalog": LAKE | {"catalog", "catalog_database", "catalog_uri", "catalog_token_file"},
}  # fmt: skip

VERB_FILES = [path for path in sorted(Path(verbs.__path__[0]).glob("*.py")) if path.stem != "__init__"]


def invoked(tmp_path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--config", str(written(tmp_path))])


def every_verb() -> dict[str, click.Command]:
    """All of them that take settings, sub-verbs by both words."""
    found: dict[str, click.Command] = {}
    for name, command in cli.commands.items():
        inner = command.commands if isinstance(command, click.Group) else {"": command}
        found |= {f"{name} {sub}".strip(): one for sub, one in inner.items()}
    return {name: one for name, one in found.items() if any(p.name == "flags" or p.name == "config" for p in one.params)
            and name != "drill"}  # fmt: skip


def test_a_verb_takes_the_flags_of_settings_that_mean_something_to_it() -> None:
    """Its help is as long as what it does; a flag that would be ignored is refused."""
    assert every_verb().keys() == TAKES.keys()
    flags = {flag(name): name for name in SCALARS}
    for name, command in every_verb().items():
        shown = {flags[one] for option in command.params for one in option.opts if one in flags}
        assert shown == TAKES[name], name
    assert CliRunner().invoke(cli, ["sweep", "--roll-age-max-secs", "5"]).exit_code == 2


def test_the_help_tells_what_each_verb_does_in_a_whole_sentence() -> None:
    """At 80 columns as well, over as many lines as it takes."""
    told = " ".join(CliRunner().invoke(cli, ["--help"], terminal_width=80).output.split())
    assert "..." not in told.partition("Commands:")[2]
    for name, command in cli.commands.items():
        assert f"{name} {' '.join((command.help or '').split('.')[0].split())}." in told


def test_a_setting_that_decides_what_becomes_of_a_record_is_a_flag_wherever_records_are_judged() -> None:
    """Else an audit of what a flag of `run` has decided could not be told the same."""
    decides = {
        "isolation", "generation", "unknown_fields", "new_type", "unrouted", "record_bytes_max", "force_optional",
    }  # fmt: skip
    for name in ("run", "plan", "audit", "offsets", "repair", "dead-letters replay"):
        assert decides <= TAKES[name], name


def test_a_repair_that_finds_all_in_order_has_not_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 0, and what it found in one line; a script may always call it."""

    def nothing(*_: Any) -> None:
        raise NothingToRepair("there is nothing to rewind")

    monkeypatch.setattr("exporter.operate.repair.repair.repair", nothing)
    bench = nullcontext(SimpleNamespace(routing=None))
    monkeypatch.setattr("exporter.workbench.open_workbench", lambda _: bench)
    monkeypatch.setattr("exporter.workbench.open_journal", lambda *_: None)
    found = invoked(tmp_path, "repair", "--rewind")
    assert (found.exit_code, found.stdout) == (0, "")
    assert found.stderr.splitlines()[-1] == "there is nothing to rewind"
    as_json = invoked(tmp_path, "repair", "--rewind", "--format", "json")
    assert (as_json.exit_code, as_json.stdout) == (0, '{"applied": false, "changes": []}\n')


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """For verbs whose work is replaced."""
    monkeypatch.setattr("exporter.workbench.open_lake", lambda _: nullcontext())


@pytest.mark.parametrize(("outcome", "exit_code"), [("done", 0), ("skipped", 1), ("failed", 1)])
def test_a_person_who_is_not_out_of_every_table_is_no_success(
    outcome: Outcome, exit_code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has to erase within a time by law is told so by the exit code, and what to do."""
    steps = [MaintenanceStep("order", "erase", "done", rows=2), MaintenanceStep("click", "table", outcome, says="busy")]
    erased = FoundSubject({"order": 2, "click": 1}, 3, 0, {}, 1, steps)
    monkeypatch.setattr("exporter.operate.erase.run.erase", lambda *_: erased)
    (tmp_path / "persons.txt").write_text("4711\n")
    found = invoked(tmp_path, "erase", "--subject-column", "id", "--values", str(tmp_path / "persons.txt"), "--apply")
    assert found.exit_code == exit_code
    assert ("where another commit was at work: click" in str(found.exception)) == (outcome == "skipped")


@pytest.mark.usefixtures("no_spark")
def test_a_sweep_ends_with_its_totals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all tables; thousands are set apart, as in every verb."""
    swept = [SweptTable("order", ("a", "b"), 1_234_567), SweptTable("click", ("c",), 1_000)]
    monkeypatch.setattr("exporter.operate.maintain.sweep.sweep", lambda *_: iter(swept))
    found = invoked(tmp_path, "sweep")
    assert "order\t2\t1,234,567\t0" in found.stdout
    assert found.stderr.splitlines()[-1] == (
        "3 files of 1,235,567 bytes in 2 tables can go; nothing was deleted: --apply does it"
    )
    monkeypatch.setattr("exporter.operate.maintain.sweep.sweep", lambda *_: iter(()))
    assert invoked(tmp_path, "sweep").stderr.splitlines()[-1].startswith("0 files of 0 bytes in 0 tables")


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("verb", ["list", "show"])
def test_a_misspelt_reason_is_not_silence(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing chosen is told with the way to see what there is; so are the totals of what is chosen."""
    some: list[DeadLetterCount] = []
    monkeypatch.setattr("exporter.operate.dead_letters.listing.counts", lambda *_: some)
    monkeypatch.setattr("exporter.operate.dead_letters.listing.shown_rows", lambda *_: iter(()))
    found = invoked(tmp_path, "dead-letters", verb, "--reason", "nope")
    assert found.exit_code == 0
    assert "no dead letter is so chosen" in found.stderr
    some += [DeadLetterCount("order", "decode", "not_json", "2026-01-01", 1_500, "t-0:1", "t-0:9")]
    assert "of 1,500 rows" in invoked(tmp_path, "dead-letters", verb, "--reason", "not_json").stderr


def test_nothing_chosen_of_no_dead_letters_is_no_mistake() -> None:
    """An empty table is good news."""
    assert told_of(0, 0, Chosen()) == "0 of 0 rows"


def test_offsets_stand_as_other_tools_take_them_and_counts_for_eyes() -> None:
    """One way for all verbs: an offset can be copied into a flag, a count can be read."""
    assert plain(1234567) == "1234567"
    assert counted(1234567) == "1,234,567"
    assert plain(None) == counted(None) == "-"
    text = "".join(path.read_text("utf-8") for path in VERB_FILES)
    assert "counted(" in text
    assert not re.findall(r"str\((?:one|row|r|s|t)\.(?:rows|files|bytes|lag|deleted|removed|started)\)", text)


def test_each_verb_has_a_file_of_its_own() -> None:
    """VERBS collects them all, and a file is called as its verb is."""
    assert sorted(str(verb.name).replace("-", "_") for verb in VERBS) == [path.stem for path in VERB_FILES]
    assert cli.commands == {verb.name: verb for verb in VERBS}


@pytest.mark.parametrize("path", VERB_FILES, ids=lambda path: path.stem)
def test_a_verb_prints_through_its_output_alone(path: Path) -> None:
    """So both of its answers stand in one place, and neither is printed in the other's way."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name)}
    assert not names & {"echo", "secho", "print", "json", "Console", "stdout", "stderr"}


def test_the_help_waits_for_nothing_heavy() -> None:
    """A verb imports what it needs when it is called: not Spark, Arrow, Kafka or DynamoDB for a line of help."""
    script = "import sys, exporter.cli.main\n"
    script += "print(sorted({'pyspark', 'pyarrow', 'kafka', 'boto3', 'urllib.request'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
