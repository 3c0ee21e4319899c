"""README and handbook against the code: every table of theirs is the one that the code has, every link leads somewhere.

The table of verdicts is held by tests/unit/offsets/test_wal_verdict.py, that of the rooms by tests/test_house.py.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import click
import pytest

import exporter
from exporter.cli.main import cli
from exporter.core.reasons import CODES
from exporter.errors import ExporterError
from exporter.log_events import event_rows
from exporter.monitor.health import ENDPOINTS
from exporter.monitor.metrics import metric_rows
from exporter.settings.reference import reference_page
from tests.bench.__main__ import PARTS
from tests.support.pictures import FOLDER, made

ROOT = Path(__file__).parents[1]
HANDBOOK = ROOT / "deploy" / "handbook"
README_LINES_MAX = 150
WORDS_MAX = 20
"""Of a sentence of a page, in the mean."""
OWN_WORDS = {
    "app", "cursor", "drain", "empty marker", "epoch", "fenced", "fingerprint", "generation", "held", "landed", "lease",
    "own mode", "owner", "parked", "position", "recovered", "refused", "rescued", "roll", "round", "settled", "spared",
    "staged", "stuck", "sweep", "switch", "task", "unknown", "valid-through", "verdict", "widened",
}  # fmt: skip
PAGES = sorted([ROOT / "README.md", ROOT / "exporter" / "README.md", ROOT / "offsets" / "PROTOCOL.md",
                *HANDBOOK.glob("*.md"), *(ROOT / "tests").glob("*/README.md")])  # fmt: skip


def table_in(page: Path, head: str) -> list[tuple[str, ...]]:
    """The cells of each row of the table that begins with `head`; the head and its rule apart."""
    text = page.read_text()
    rows = text[text.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]) for row in rows]


def errors(kind: type[ExporterError] = ExporterError) -> Iterator[type[ExporterError]]:
    """The tree of errors, as far as their modules are loaded."""
    yield kind
    for child in kind.__subclasses__():
        yield from errors(child)


def verbs_of(group: click.Group, head: str = "exporter") -> Iterator[str]:
    """Every verb as it is typed, a group by its verbs; hidden ones are nobody's to type."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from verbs_of(command, f"{head} {name}")
        elif not command.hidden:
            yield f"{head} {name}"


def test_the_exit_codes_are_those_of_the_errors() -> None:
    """Each code that an error has, and 0; no other."""
    names = [module.name for module in pkgutil.walk_packages(exporter.__path__, "exporter.")]
    assert "exporter.operate.audit.audit" in names
    for name in names:
        importlib.import_module(name)
    told = [int(code) for code, *_ in table_in(ROOT / "README.md", "| exit code |")]
    assert told == sorted({0, *(kind.exit_code for kind in errors())})


def test_each_verb_has_a_line_in_the_list_of_verbs() -> None:
    """Where a user looks for them, those of a group among them."""
    text = (ROOT / "README.md").read_text()
    block = text[text.index("exporter prepare  ") :]
    lines = block[: block.index("```")].splitlines()
    listed = {re.match(r"exporter [a-z-]+(?: [a-z][a-z-]+)?", line)[0].strip() for line in lines}  # type: ignore[index]
    assert listed == set(verbs_of(cli))


def test_the_endpoints_are_those_that_are_served() -> None:
    """In the order in which the server names them."""
    assert [path.strip("`") for path, _ in table_in(HANDBOOK / "watching.md", "| endpoint |")] == list(ENDPOINTS)


def test_the_metrics_are_those_that_exist() -> None:
    """Name, kind, labels and help of each, in the order of the code."""
    rows = table_in(HANDBOOK / "watching.md", "| metric |")
    assert [(name.strip("`"), *rest) for name, *rest in rows] == list(metric_rows())


def test_the_events_are_those_that_exist() -> None:
    """Each with its meaning."""
    rows = table_in(HANDBOOK / "watching.md", "| event |")
    assert [(name.strip("`"), meaning) for name, meaning in rows] == event_rows()


def test_the_page_of_settings_is_the_generated_one() -> None:
    """`exporter config --write-reference > deploy/handbook/settings.md` makes it anew."""
    assert (HANDBOOK / "settings.md").read_text() == reference_page()


def test_what_the_constants_rest_on_is_told_of_names_and_parts_that_exist() -> None:
    """A name that is gone, or a part of the benchmark, takes its row with it."""
    module, rows = exporter.__name__, table_in(ROOT / "tests" / "bench" / "README.md", "| file | name |")
    assert len(rows) > 20
    for file, name, worth, shown_by in rows:
        module = "exporter." + file.strip("`").removesuffix(".py").replace("/", ".") if file else module
        assert attrgetter(name.strip("`"))(importlib.import_module(module)) is not None
        assert worth
        assert shown_by == "by hand" or shown_by.strip("`") in PARTS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file(page: Path) -> None:
    """Relative to the page, as the web shows it."""
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_into_a_page_leads_to_a_heading(page: Path) -> None:
    """By the anchor that the web makes of it: small letters, no punctuation, hyphens for spaces."""
    for path, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
        headings = re.findall(r"^#+ (.*)$", ((page.parent / path) if path else page).read_text(), re.M)
        anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert anchor in anchors, f"{path}#{anchor}"


def test_a_newcomer_reads_the_readme_in_five_minutes_and_finds_each_page_in_the_handbooks_first_one() -> None:
    """Everything else has a page of its own."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES_MAX
    first = (HANDBOOK / "README.md").read_text()
    assert [page.name for page in HANDBOOK.glob("*.md") if f"]({page.name})" not in first] == ["README.md"]


@pytest.mark.parametrize("source", sorted(FOLDER.glob("*.txt")), ids=lambda source: source.stem)
def test_a_picture_is_what_its_text_draws_and_stands_on_a_page(source: Path) -> None:
    """`python -m tests.support.pictures` makes it anew."""
    assert source.with_suffix(".svg").read_text("utf-8") == made(source)
    assert any(f"pictures/{source.stem}.svg)" in page.read_text() for page in PAGES)


def test_each_alert_has_a_line_for_the_person_on_call() -> None:
    """In the order of the rules; nothing else is there."""
    rules = re.findall(r"- alert: (\w+)", (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
    assert [name.strip("`") for name, *_ in table_in(HANDBOOK / "on-call.md", "| alert |")] == rules


def test_each_reason_of_a_dead_letter_is_explained() -> None:
    """Each code once, but that of the format that only tests read."""
    told = [code for codes, *_ in table_in(HANDBOOK / "dead-letters.md", "| code |") for code in codes.split(", ")]
    assert sorted(told) == sorted(f"`{code}`" for code in {*CODES, "tombstone"} - {"not_pairs"})


def test_words_of_our_own_are_in_the_glossary() -> None:
    """In the order of the alphabet; among them each that a reader of the output cannot know."""
    words = [word for word, _ in table_in(HANDBOOK / "glossary.md", "| word |")]
    assert words == sorted(words, key=str.lower)
    assert not OWN_WORDS - {word for row in words for word in row.split(", ")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())  # fmt: skip
def test_sentences_are_short(page: Path) -> None:
    """In the mean; tables, code and headings apart. What is in backticks is one word."""
    prose = re.sub(r"(?s:```.*?```)|^\|.*$|^#.*$|^HELD BY(?:.+\n)+", "", page.read_text(), flags=re.M)
    blocks = (re.sub(r"`[^`]*`", "x", " ".join(block.split())) for block in re.split(r"\n\s*\n|\n(?=- |\d+\. )", prose))
    sentences = [found for block in blocks for found in re.split(r"(?<=[.!?:;])\s+(?=[A-Z0-9(*`x\"])", block) if found]
    assert 0 < sum(len(sentence.split()) for sentence in sentences) <= WORDS_MAX * len(sentences)
