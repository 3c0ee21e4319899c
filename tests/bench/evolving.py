"""Part evolving: what columns that nobody declared cost, once nothing new arrives, beside the same ones declared.

Budget 5 min: three pairs of exports of 1.5 M records each, in turn. The lakes were made by an export of a few records
before, so that all columns are there; hints give the evolved ones the declared types.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from tests.bench.desk import Desk, Filled
from tests.bench.figures import Outcome, Target, ratios
from tests.bench.load import Load
from tests.bench.pairs import Timed, compared, in_turn, timed_export

PAIRS = 3
RECORDS, WARM_RECORDS = 1_500_000, 20_000
SHARE_MIN = 0.95


def run(desk: Desk) -> Outcome:
    """The pairs, and the median of their ratios."""
    outcome = Outcome()
    with desk.broker():
        topic = desk.topic(Load(), desk.count(WARM_RECORDS, least=2_000))
        lakes = {name: desk.lake() for name in ("declared", "evolved")}

        def exports(name: str) -> Timed:
            return timed_export(desk.export(_config(desk, topic, lakes[name], name)))

        ways = {name: partial(exports, name) for name in lakes}
        in_turn(1, ways)
        pairs = []
        for _ in range(PAIRS):
            desk.add(topic, desk.count(RECORDS, least=5_000))
            pairs.append(in_turn(1, ways))
    done = {name: [pair[name][0] for pair in pairs] for name in lakes}
    speeds = compared(outcome, "Columns that are declared, and that evolution made", done)
    _, share = ratios(speeds["evolved"], speeds["declared"])
    what = "evolved, of the throughput of declared columns"
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
