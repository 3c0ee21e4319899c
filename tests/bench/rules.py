"""Part rules: what a filter and two computed columns for each of 10 types cost, beside the same export without them.

Budget 6 min: three pairs of exports of 3 M records each, in turn, into new tables. The filter holds for every row: one
that takes rows away would save their encoding.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from tests.bench.desk import Desk, Filled
from tests.bench.figures import Outcome, Row, Target, ratios, rounded
from tests.bench.load import Load
from tests.bench.pairs import Timed, exported

PAIRS = 3
RECORDS = 3_000_000
SHARE_MIN = 0.7
WHERE = "user_id IS NOT NULL AND session <> ''"
SET = {"session_hash": "sha256(session)", "shard": "user_id % 64"}
"""A masked column and a number, of columns that every type has."""


def run(desk: Desk) -> Outcome:
    """The pairs, and the median of their ratios."""
    outcome, rows = Outcome(), list[Row]()
    done: dict[str, list[Timed]] = {"with": [], "without": []}
    with desk.broker():
        topic = desk.topic(Load(), desk.count(RECORDS, least=5_000))
        for number in range(PAIRS):
            for name in ["with", "without"] if number % 2 else ["without", "with"]:
                config = desk.config(topic, desk.lake())
                if name == "with":
                    with_rules(config, topic)
                done[name].append(exported(desk, topic, config))
            rows += [{"pair": number + 1, "rules": name, **_figures(one[-1])} for name, one in done.items()]
    outcome.tables["A filter and two computed columns for each type, and none"] = rows
    _, share = ratios([one.speed for one in done["with"]], [one.speed for one in done["without"]])
    outcome.bars["records/s, medians"] = {name: median(one.speed for one in runs) for name, runs in done.items()}
    what = "with a filter and two computed columns for each type, of the throughput without"
    outcome.targets.append(Target(what, share, SHARE_MIN, "x", at_least=True))
    return outcome


def with_rules(config: Path, topic: Filled) -> None:
    """Give each type of a settings file its filter and its computed columns."""
    text = config.read_text()
    for name, ddl in topic.load.declared().items():
        columns = f'[types.{name}]\ncolumns = "{ddl}"'
        computed = "".join(f'{column} = "{sql}"\n' for column, sql in SET.items())
        text = text.replace(columns, f'{columns}\nwhere = "{WHERE}"\n[types.{name}.set]\n{computed}', 1)
    config.write_text(text)


def _figures(one: Timed) -> Row:
    return {"records/s": round(one.speed), "core-s/M": rounded(one.core_secs / one.rows * 1e6)}
