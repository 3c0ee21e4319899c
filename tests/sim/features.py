"""What a seed's world is like: drawn by the seed, or told, as of a history that was recorded.

A new field stands at a default that changes nothing, and draws nothing from the world's own chance unless it is on: so
a recorded seed with its features stays the history that it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from exporter.core.routing import Routing
from exporter.settings.load import load
from exporter.settings.model import Settings
from exporter.workbench import parse_schemas, routing
from tests.sim.expected import Configuration
from tests.sim.growing import TEXT
from tests.sim.rounds import BAD, WHERE
from tests.sim.store import SCHEME

TOPIC, SECOND_TOPIC, CONTROL_TOPIC, APP = "events", "audit.log", "control", "sim"
TYPES = ("order", "click", "payment")
KINDS = (*TYPES, *TYPES, f"{BAD}bad", "unknown")
UNDECLARED = ("unknown", "visit", "Order", "Visit", "refund")
CHANGES = ("type_added", "type_gone", "unrouted_counted", "tables_made", "generation")
TAKES = (("order", ("order", "payment")), ("click", ("click", "payment")))
"""Where records belong to several types: who takes which."""
FILTERED = ("order", "click")
"""Types that have a filter, where some have one."""
DAYS = ("2026-01-01", "2026-01-02")
UNKNOWN_SECS = 10.0
"""For so long a registry says that it has no such id before that is believed."""
FRESH_SECS, FRESH_KILLS, FRESH_ARMED = 600.0, 0.5, 8
"""Worlds of fresh seeds are longer than those of which something is recorded, and their tasks are killed more often.
More kills wait for their points then: else the next one would take the place of most before it strikes."""


@dataclass(frozen=True)
class Features:
    """Chances are of one call, secs are simulated. through: valid_through. new_types: of how many undeclared types
    records may be, each of which has a table of its own; 0: they are dead letters. grows: partitions come while tasks
    run. second_topic: with as many partitions. transactions, retention, compaction: see producing.py.
    change: what differs in the settings with which all tasks are started again, one after the other.
    announced: somebody is told of new versions. swept: a sweep now and then (janitor.py).
    restored: a person takes a table back, and repairs that (accident.py).
    poison: whose rounds end on some records: all, weak (poison.py).
    slow: that a call takes seconds. secs: how long there are faults. armed: how many kills wait for their fault points
    at a time; of more the oldest waits no more. filtered: types have a filter `where`.
    fans_out: a record may belong to several types, of which one or another may refuse it.
    evolves: records have further fields, of which columns are made.
    reverted: some time after the change the settings of before come back, as another generation.
    registry: values name schemas by ids of a registry, which has some of them late and some never (registry.py).
    """

    tasks: int = 3
    partitions: int = 4
    coordinated: bool = False
    wal: str = "off"
    leases: bool = False
    kill_every_secs: float = 18.0
    sleeps: bool = True
    cuts: bool = True
    sigterms: bool = True
    refused: float = 0.0
    lost_reply: float = 0.0
    late: float = 0.0
    records_per_sec: float = 4.0
    carried: bool = True
    roll_secs: float = 5.0
    heartbeat_secs: float = 10.0
    through: str = "off"
    new_types: int = 0
    transactions: bool = False
    retention: bool = False
    compaction: bool = False
    grows: bool = False
    second_topic: bool = False
    change: str = ""
    poison: str = ""
    announced: bool = False
    swept: bool = False
    restored: bool = False
    slow: float = 0.002
    filtered: bool = False
    fans_out: bool = False
    evolves: bool = False
    reverted: bool = False
    registry: bool = False
    secs: float = 300.0
    armed: int = 1

    @classmethod
    def drawn(cls, seed: int) -> Features:
        """A swarm: each seed has some features and faults, and not others."""
        rng = Random(f"features of {seed}")
        static = rng.random() < 0.25
        drawn = cls(
            tasks=rng.choice((1, 2, 3, 3, 4)),
            partitions=rng.choice((1, 2, 4, 6)),
            coordinated=rng.random() < 0.4,
            wal="required" if static else rng.choice(("off", "required", "best_effort")),
            leases=static,
            kill_every_secs=rng.choice((6.0, 12.0, 18.0, 30.0)),
            sleeps=rng.random() < 0.6,
            cuts=rng.random() < 0.5,
            sigterms=rng.random() < 0.5,
            refused=rng.choice((0.0, 0.0, 0.01, 0.05)),
            lost_reply=rng.choice((0.0, 0.0, 0.01, 0.05)),
            late=rng.choice((0.0, 0.0, 0.02)),
            records_per_sec=rng.choice((0.5, 2.0, 6.0)),
            carried=rng.random() < 0.7,
            roll_secs=rng.choice((1.0, 5.0, 15.0)),
            heartbeat_secs=rng.choice((3.0, 10.0, 30.0)),
            through=rng.choice(("off", "off", "off", "strict", "idle_aware")),
            new_types=rng.choice((0, 0, 0, 1, 5)),
            transactions=rng.random() < 0.3,
            retention=rng.random() < 0.25,
            compaction=rng.random() < 0.2,
            grows=rng.random() < 0.2,
            second_topic=rng.random() < 0.15,
            change=rng.choice(("",) * 2 * len(CHANGES) + CHANGES),
            poison=rng.choice(("", "", "", "all", "weak")),
            announced=rng.random() < 0.2,
            swept=rng.random() < 0.3,
            slow=rng.choice((0.002, 0.002, 0.03)),
        )
        may_be = not (drawn.change or drawn.retention)
        drawn = replace(drawn, restored=may_be and rng.random() < 0.3)
        rng = Random(f"rules of {seed}")  # what came later draws by itself: else all worlds were others
        drawn = replace(drawn, filtered=rng.random() < 0.25, fans_out=rng.random() < 0.25)
        return replace(drawn, evolves=Random(f"columns of {seed}").random() < 0.25)

    @classmethod
    def fresh(cls, seed: int) -> Features:
        """As drawn, and more happens: of 300 seconds nobody is killed in the last 90, nor until the first task runs."""
        drawn = cls.drawn(seed)
        reverted = bool(drawn.change) and Random(f"reverted of {seed}").random() < 0.5
        drawn = replace(drawn, reverted=reverted, registry=Random(f"registry of {seed}").random() < 0.25)
        return replace(drawn, secs=FRESH_SECS, kill_every_secs=drawn.kill_every_secs * FRESH_KILLS, armed=FRESH_ARMED)

    @property
    def topics(self) -> tuple[str, ...]:
        """Those that are exported."""
        return (TOPIC, SECOND_TOPIC) if self.second_topic else (TOPIC,)

    @property
    def points(self) -> tuple[str, ...]:
        """Fault points that are passed in such a world only."""
        of_gaps = ("after_gap_row", "after_gap_move") if self.retention else ()
        of_repairs = ("after_repair",) if self.restored else ()
        return (*of_gaps, *of_repairs, *(("after_seal",) if self.change else ()))

    def told(self, changes: int = 0) -> Configuration:
        """What decides where a record goes, as the oracle knows it, after so many changes."""
        other = changes == 1
        fewer = self.change == ("type_gone" if other else "type_added")
        return Configuration(
            TYPES[:2] if fewer else TYPES,
            new_tables=bool(self.new_types) and not (self.change == "tables_made" and not other),
            counts=self.change == "unrouted_counted" and other,
            generation=changes if self.change == "generation" else changes // 2,
            takes=TAKES if self.fans_out else (),
            thirds=frozenset(FILTERED if self.filtered else ()),
            texts=frozenset(TYPES[2:] if self.fans_out else ()),
        )

    @property
    def poison_kinds(self) -> tuple[str, ...]:
        """Those of the records that rounds end on: some type is declared all the time that takes them."""
        return (TYPES[0], TYPES[2]) if self.fans_out else TYPES[:2]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those of the records, each as often as it is drawn."""
        several = (f"{TEXT}{TYPES[2]}", TYPES[2]) if self.fans_out else ()
        return (*KINDS, *several, *UNDECLARED[1 : self.new_types])


ROUTED = ["[type_from]", 'kind = "json"', 'name = "type"', "[event_time]", 'kind = "record"']
"""How the settings say whose record it is, and of when."""


def lines_of(features: Features) -> list[str]:
    """What the settings say of where all is, and how often is committed."""
    lines = [
        'brokers = ["127.0.0.1:1"]',
        f"topics = {list(features.topics)}",
        f'group = "{APP}"',
        f'app = "{APP}"',
        f'table_root = "{SCHEME}lake"',
        f"roll_age_max_secs = {features.roll_secs}",
        f"heartbeat_secs = {features.heartbeat_secs}",
    ]
    lines += [f'wal_mode = "{features.wal}"', 'wal_table = "sim"'] if features.wal != "off" else []
    return lines + ([f'control_topic = "{CONTROL_TOPIC}"'] if features.coordinated else [])


@cache
def settings_of(features: Features, share: str = "", changes: int = 0) -> tuple[Settings, Routing]:
    """What the tasks of such a world are told. share: of one task with a fixed assignment. changes: after so many."""
    told = features.told(changes)
    lines = [
        *lines_of(features),
        "session_timeout_secs = 10",
        "give_up_secs = 3600",
        "poll_secs = 1.0",
        f"carried_bytes_max = {1 << 20 if features.carried else 0}",
        f'valid_through = "{features.through}"',
    ]
    lines += ['assignment = "static"', f'partitions = "{share}"', 'lease_secs = 10.0'] if share else []
    lines += ['events_webhook = "https://127.0.0.1:1/events"'] if features.announced else []
    lines += ['on_gap = "record"'] if features.retention else []
    lines += ['new_type = "table"'] if told.new_tables else []
    lines += ['unrouted = "count"'] if told.counts else []
    lines += ['evolve = "add"'] if features.evolves else []
    lines += [f"generation = {told.generation}"] if told.generation else []
    if features.registry:
        lines += ["[value_format]", 'kind = "json_schema"']
        lines += ["[schema_registry]", 'urls = ["http://127.0.0.1:1"]', f"unknown_after_secs = {UNKNOWN_SECS}"]
    lines += ROUTED
    for name in told.declared:
        lines += [f"[types.{name}]", f'columns = "{"note STRING" if name in told.texts else "id BIGINT"}"']
        lines += [f"match = '{'|'.join(dict(told.takes)[name])}'"] if name in dict(told.takes) else []
        lines += [f'where = "{WHERE}"'] if name in told.thirds else []
    return loaded(lines)


def loaded(lines: Sequence[str]) -> tuple[Settings, Routing]:
    """The settings of a file of these lines, and what follows from them for records."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "exporter.toml"
        path.write_text("\n".join(lines))
        settings = load(path, {}, {})
    declared = {name: table.columns for name, table in settings.types.items() if table.columns}
    return settings, routing(settings, parse_schemas(declared))
