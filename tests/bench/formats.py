"""Part formats: the same events as JSON, as Avro and as Protobuf, exported in turn.

Budget 10 min: three rounds of one export for each format, of 3 M records each, good ones alone, into new tables. Avro
and Protobuf have the frame of Confluent's serialisers and a real registry, which gives types and columns; of JSON both
are declared.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import get_args

from exporter.local.registry import LocalRegistry
from tests.bench.desk import Desk, Filled
from tests.bench.figures import Outcome, Target, ratios
from tests.bench.load import Load
from tests.bench.pairs import Timed, compared, exported, in_turn
from tests.bench.shop_values import Form

ROUNDS = 3
RECORDS = 3_000_000
"""The first round of a process is slow: of fewer records it is most of what they cost."""
TIMES_MIN, CORE_SECS_MAX = 1.4, 4.0
FORMS: tuple[Form, ...] = get_args(Form)


def run(desk: Desk) -> Outcome:
    """The rounds, and of each the ratios to its JSON."""
    outcome = Outcome()
    with desk.broker(), LocalRegistry() as registry:
        load = Load(bad_every=0, registry=registry.url)

        def exports(topic: Filled) -> Timed:
            return exported(desk, topic, _config(desk, topic, desk.lake()))

        count = desk.count(RECORDS, least=5_000)
        ways = {form: partial(exports, desk.topic(replace(load, form=form), count)) for form in FORMS}
        done = in_turn(ROUNDS, ways)
    speeds = compared(outcome, "One export for each format, one after the other", done)
    for form in FORMS[1:]:
        _, times = ratios(speeds[form], speeds["json"])
        outcome.targets.append(Target(f"{form}: records/s, times JSON", times, TIMES_MIN, "x", at_least=True))
        cost = median(one.core_secs / one.rows * 1e6 for one in done[form])
        outcome.targets.append(Target(f"{form}: core-seconds per million records", cost, CORE_SECS_MAX, "s"))
    return outcome


def _config(desk: Desk, topic: Filled, lake: Path) -> Path:
    config = desk.config(topic, lake, new_type="table")
    if topic.load.form != "json":
        head = config.read_text().partition("[type_from]")[0]
        lines = [f'[value_format]\nkind = "{topic.load.form}"', f'[schema_registry]\nurls = ["{topic.load.registry}"]']
        lines += ['[type_from]\nkind = "schema"\nname = "short"', '[event_time]\nkind = "field"\npath = "ts"']
        config.write_text("\n".join([head, *lines]) + "\n")
    return config
