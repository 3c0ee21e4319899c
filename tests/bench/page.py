"""The benchmark as one HTML page, from its JSON alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from exporter.display.html import Cell, Html, bars, join, page, paragraph, table
from exporter.display.plots import columns
from tests.bench.figures import rounded


def as_html(told: Mapping[str, Any]) -> str:
    """told: what __main__.py writes as JSON."""
    parts: Mapping[str, Mapping[str, Any]] = told["parts"]
    sections = [("Targets", _targets(parts))]
    sections += [(str(part["title"]), _part(part)) for part in parts.values()]
    sections.append(("Environment", table(("what", "value"), sorted(told["environment"].items()))))
    return page(f"Benchmark, {told['began']}", sections, _head(told))


def _head(told: Mapping[str, Any]) -> Html:
    targets = [target for part in told["parts"].values() for target in part.get("targets", ())]
    held, failed = sum(target["holds"] for target in targets), [p for p in told["parts"].values() if "error" in p]
    words = f"{held} of {len(targets)} targets hold"
    if failed:
        words += f"; {len(failed)} parts failed"
    scale = "" if told["scale"] == 1 else f" Scale {told['scale']:g}: the figures of so small a run say nothing."
    minutes = f"{told['secs'] / 60:.0f} minutes on {told['environment'].get('cores')} cores.{scale}"
    return join([paragraph(words, "bad" if failed or held < len(targets) else ""), paragraph(minutes, "faint")])


def _targets(parts: Mapping[str, Mapping[str, Any]]) -> Html:
    rows: list[Sequence[Cell]] = [
        (name, target["name"], target["target"], target["value"], _yes(target["holds"]))
        for name, part in parts.items()
        for target in part.get("targets", ())
    ]
    return table(("part", "what", "target", "measured", "holds"), rows)


def _yes(holds: bool) -> Cell:
    return "yes" if holds else Html('<span class="bad">no</span>')


def _part(part: Mapping[str, Any]) -> Html:
    before, after = part["loop_secs"]
    words = f"{part['secs'] / 60:.1f} minutes, budget {part['budget_secs'] / 60:.0f}"
    made = [paragraph(f"{words}; a fixed loop on one core took {before} s before and {after} s after it", "faint")]
    if "error" in part:
        return join([*made, paragraph(part["error"], "bad")])
    made += [paragraph(note) for note in part["notes"]]
    made += [
        join([paragraph(caption, "faint"), bars(found.items(), _shown)]) for caption, found in part["bars"].items()
    ]
    made += [columns(list(found.items()), caption, _shown) for caption, found in part["stacks"].items()]
    made += [join([paragraph(caption, "faint"), _table(rows)]) for caption, rows in part["tables"].items()]
    return join(made)


def _shown(number: float) -> str:
    return f"{rounded(number):,}".removesuffix(".0")


def _table(rows: Sequence[Mapping[str, Cell]]) -> Html:
    """One column for each name that a row has, in the order in which they are met."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return table(names, [[row.get(name) for name in names] for row in rows])
