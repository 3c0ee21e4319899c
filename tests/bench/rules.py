"""Part rules: what a filter and two computed columns for each of 10 types cost, beside the same export without them.

Budget 6 min: three pairs of exports of 3 M records each, in turn, into new tables. The filter holds for every row: one
that takes rows away would save their encoding.
"""

from __future__ import annotations

from pathlib import Path

from tests.bench.desk import Desk, Filled
from tests.bench.figures import Outcome, Target, ratios
from tests.bench.load import Load
from tests.bench.pairs import Timed, compared, exported, in_turn

PAIRS = 3
RECORDS = 3_000_000
SHARE_MIN = 0.7
WHERE = "user_id IS NOT NULL AND session <> ''"
SET = {"session_hash": "sha256(session)", "shard": "user_id % 64"}
"""A masked column and a number, of columns that every type has."""


def run(desk: Desk) -> Outcome:
    """The pairs, and the median of their ratios."""
    outcome = Outcome()
    with desk.broker():
        topic = desk.topic(Load(), desk.count(RECORDS, least=5_000))

        def ruled() -> Timed:
            config = desk.config(topic, desk.lake())
            with_rules(config, topic)
            return exported(desk, topic, config)

        done = in_turn(PAIRS, {"with": ruled, "without": lambda: exported(desk, topic)})
    speeds = compared(outcome, "A filter and two computed columns for each type, and none", done)
    _, share = ratios(speeds["with"], speeds["without"])
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
