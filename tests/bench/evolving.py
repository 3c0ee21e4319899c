"""Part evolving: what columns that nobody declared cost, once nothing new arrives, beside the same ones declared.

Budget 5 min: three pairs of exports of 1.5 M records each, in turn. The lakes were made by an export of a few records
before, so that all columns are there; hints give the evolved ones the declared types.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

from tests.bench.desk import Desk, Filled, Run
from tests.bench.figures import Outcome, Row, Target, rounded
from tests.bench.load import Load

PAIRS = 3
RECORDS, WARM_RECORDS = 1_500_000, 20_000
SHARE_MIN = 0.95


def run(desk: Desk) -> Outcome:
    """The pairs, and the median of their ratios."""
    outcome, rows, shares = Outcome(), list[Row](), list[float]()
    with desk.broker():
        topic = desk.topic(Load(), desk.count(WARM_RECORDS, least=2_000))
        lakes = {name: desk.lake() for name in ("declared", "evolved")}
        for name, lake in lakes.items():
            desk.export(_config(desk, topic, lake, name))
        for number in range(PAIRS):
            desk.add(topic, desk.count(RECORDS, least=5_000))
            names = [*lakes] if number % 2 else [*reversed(lakes)]
            done = {name: desk.export(_config(desk, topic, lakes[name], name)) for name in names}
            shares.append(_rate(done["evolved"]) / _rate(done["declared"]))
            rows += [{"pair": number + 1, "columns": name, **_figures(one)} for name, one in sorted(done.items())]
    outcome.tables["Columns that are declared, and that evolution made"] = rows
    share, what = median(shares), "evolved, of the throughput of declared columns"
    outcome.targets.append(Target(what, share, SHARE_MIN, "x", at_least=True))
    return outcome


def _config(desk: Desk, topic: Filled, lake: Path, name: str) -> Path:
    config = desk.config(topic, lake)
    if name == "declared":
        return config
    text = config.read_text()
    head, _, _ = text.partition("[types.")
    lines = ['evolve = "add"', head]
    for event_type, ddl in topic.load.declared().items():
        hints = ", ".join(f"{json.dumps(column)} = {json.dumps(kind)}" for column, kind in _columns(ddl))
        lines.append(f"[types.{event_type}]\nhints = {{ {hints} }}")
    config.write_text("\n".join(lines) + "\n")
    return config


def _columns(ddl: str) -> list[tuple[str, str]]:
    """Each top-level column and its type."""
    parts, depth, begin = list[str](), 0, 0
    for at, char in enumerate(ddl):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(char, 0)
        if char == "," and not depth:
            parts.append(ddl[begin:at])
            begin = at + 1
    named = [part.strip().partition(" ") for part in [*parts, ddl[begin:]]]
    return [(name.strip("`"), kind.strip()) for name, _, kind in named]


def _rate(done: Run) -> float:
    return done.rows / done.secs


def _figures(done: Run) -> Row:
    used = sum(done.usage.between(*done.window).values())
    return {"records/s": round(_rate(done)), "core-s/M": rounded(used / done.rows * 1e6)}
