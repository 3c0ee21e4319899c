"""The page on routing (deploy/handbook/routing.md) is executed: its settings, its session, each row of its table."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from exporter.cli.main import cli
from exporter.operate.check.samples import Sampled, samples
from exporter.settings.load import load
from offsets.names import event_type_of, table_folder
from tests.test_handbook import HANDBOOK, table_in

PAGE = HANDBOOK / "routing.md"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def block(kind: str, number: int) -> str:
    """A block of code of the page."""
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[number]


def told(one: Sampled) -> str:
    """The fates of a sample as the page's table has them."""
    texts = []
    for fate in one.fates:
        row = {name: value for name, value in (fate.row or {}).items() if name != "_event_time"}
        shown = f"{fate.event_type} {json.dumps(row)}" if fate.went == "row" else fate.went
        texts.append(shown)
    return ", ".join(texts)


def with_row(base: str, spelling: list[str]) -> str:
    """A row's lines where they belong: [type_from], or [types.order], whose columns they may replace."""
    text = "\n".join(spelling) + "\n"
    if spelling[0] == "[type_from]":
        return base.replace('[type_from]\nkind = "field"\nname = "type"\n', "") + text
    return (re.sub(r"\ncolumns = .*", "", base) if "\ncolumns" in f"\n{text}" else base) + text


ROWS = table_in(PAGE, "| transform |")


@pytest.mark.parametrize("row", ROWS, ids=[re.sub(r"\W+", "_", one[0]) for one in ROWS])
def test_each_transform_of_the_page_does_what_the_page_says(row: tuple[str, ...]) -> None:
    """As it is spelled there, by what the workers run."""
    _, spelling, record, becomes = row
    lines = [html.unescape(one.strip().strip("`")) for one in spelling.split("<br>")]
    text = record.strip("`")
    Path("exporter.toml").write_text(with_row(block("toml", 2), lines), "utf-8")
    (one,) = samples(load(None, {}, {}), [text.encode()], records="value" in json.loads(text))
    assert told(one) == becomes.strip("`")


def test_the_function_of_the_page_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its column is there, and a row that its mask leaves out is filtered."""
    (tmp_path / "our_rules.py").write_text(block("python", 0), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    base = block("toml", 2)
    Path("exporter.toml").write_text(base[: base.index("[types.order]")] + block("toml", 1), "utf-8")
    sent = [b'{"type":"order","id":1,"pieces":2,"cents":5}', b'{"type":"order","id":1,"pieces":0,"cents":5}']
    found = [*samples(load(None, {}, {}), sent, records=False)]
    assert [told(one) for one in found] == ['order {"id": 1, "pieces": 2, "cents": 5, "total": 10}', "filtered"]
    assert found[1].fates[0].why == "python = our_rules:priced"


def test_a_name_with_dots_and_slashes_has_a_table_below_the_root() -> None:
    """Its folder is as the page spells it."""
    name, folder = re.findall(r"so `([^`]+)` is `([^`]+)`", PAGE.read_text("utf-8"))[0]
    assert (table_folder(name), event_type_of(folder)) == (folder, name)
    assert {"/", ".."}.isdisjoint({*folder, folder[:2]})


@pytest.mark.parametrize(("match", "takers"), [(".*", ["order"]), (".+", [])])
def test_an_event_type_that_a_rename_empties_goes_to_who_takes_the_empty_text(match: str, takers: list[str]) -> None:
    """Else it is unrouted, and no row is anywhere without a table that asked for it."""
    base = with_row(block("toml", 2), [f'match = "{match}"'])
    rename = '[[type_from.rename]]\nmatch = "v(.*)"\nto = "$1"\n'
    Path("exporter.toml").write_text(base.replace("[event_time]", rename + "[event_time]"), "utf-8")
    (one,) = samples(load(None, {}, {}), [b'{"type": "v", "ts": 1700000000000}'], records=False)
    assert [fate.event_type for fate in one.fates if fate.went == "row"] == takers


def test_the_session_of_the_page_is_what_the_verb_says() -> None:
    """Settings, samples and answer as they stand there, but for event times."""
    Path("exporter.toml").write_text(block("toml", 0), "utf-8")
    Path("samples.jsonl").write_text(block("json", 0), "utf-8")
    found = CliRunner().invoke(cli, ["check", "--sample", "samples.jsonl"])
    assert found.exit_code == 0, found.output
    assert re.sub(r', "_event_time": "[^"]*"', "", found.stdout) == block("text", 0)


