"""Part unknown: what fields that no column holds cost the decoder, beside the same records without them.

Budget 2.5 min. No broker and no Spark: one core decodes page views, one case after the other in each round, so that a
slow minute of the machine slows all of them; of each case the least CPU time counts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Literal

import pyarrow as pa

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.formats.decoder import Decoder
from tests.bench.desk import Desk
from tests.bench.figures import Outcome, Row, Target, rounded
from tests.bench.load import Load

RECORDS = 22_384
WARM_RECORDS = 6_000
"""In them a decoder learns what comes; a task of a round decodes tens of thousands."""
ROUNDS = 16
TIMES_MAX = 1.5

Policy = Literal["rescue", "ignore", "dead_letter"]
POLICIES: tuple[Policy, ...] = ("rescue", "ignore", "dead_letter")

_SCREEN = pa.struct([("width", pa.int32()), ("height", pa.int32())])
COLUMNS = pa.schema(
    [
        ("seq", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("user_id", pa.int64()),
        ("session", pa.string()),
        ("url", pa.string()),
        ("referrer", pa.string()),
        ("agent", pa.string()),
        ("load_ms", pa.float64()),
        ("logged_in", pa.bool_()),
        ("device", pa.struct([("os", pa.string()), ("screen", _SCREEN)])),
    ]
)
"""Those of a page view."""

Record = dict[str, Any]
Fields = Callable[[int], Record]

ONE: dict[str, Fields] = {
    "an integer": lambda n: {"u": n},
    "a number": lambda n: {"u": n / 8},
    "a text": lambda n: {"u": f"text {n}"},
    "an object": lambda n: {"u": {"a": n, "b": "text", "c": {"d": n / 8}}},
    "an array": lambda n: {"u": [n, n + 1, 3]},
    "an array of objects": lambda n: {"u": [{"a": n, "b": "x"}, {"a": n + 1, "b": "y"}]},
}
"""Beside each other field of a record, in its middle."""
MORE: dict[str, Fields] = {
    "a text with escapes": lambda n: {"u": f'line {n}\n"caf\u00e9"'},
    "5 side by side": lambda n: {f"u{k}": n + k for k in range(5)},
    "20 side by side": lambda n: {f"u{k}": n + k for k in range(20)},
    "in half of the records": lambda n: {"u": n} if n % 2 else {},
    "with a name of its own": lambda n: {f"u{n}": n},
}


def run(desk: Desk) -> Outcome:
    """All cases under each policy."""
    outcome = Outcome()
    cases = _cases()
    for policy in POLICIES:
        micros = _micros(cases, policy, max(3, round(ROUNDS * desk.scale)))
        times = {name: taken / micros["none"] for name, taken in micros.items()}
        rows: list[Row] = [
            {"unknown": name, "us a record": rounded(micros[name]), "times": rounded(times[name])} for name in cases
        ]
        outcome.tables[f"Unknown fields, {policy}"] = rows
        if policy != "dead_letter":
            names = [*ONE, "in a struct"]
            outcome.targets += [Target(f"{policy}: {name}", times[name], TIMES_MAX, "times") for name in names]
    outcome.notes.append("With dead_letter each of these records is a dead letter with a reason of its own: no target.")
    return outcome


def _cases() -> dict[str, pa.BinaryArray]:
    """Name -> values."""
    sent = Load(types=1, bad_every=0).records(2 * RECORDS, 0)
    views = [json.loads(one.value or b"") for one in islice(sent, RECORDS)]
    made = {"none": views, **{name: _besides(views, fields) for name, fields in {**ONE, **MORE}.items()}}
    made |= {f"{count} apart": [_apart(view, n, count) for n, view in enumerate(views)] for count in (5, 20)}
    made["in a struct"] = [{**view, "device": {**view["device"], "u": n}} for n, view in enumerate(views)]
    return {name: pa.array([_text(record) for record in records], pa.binary()) for name, records in made.items()}


def _besides(views: list[Record], fields: Fields) -> list[Record]:
    """The unknown fields stand in the middle."""
    made = []
    for n, view in enumerate(views):
        items = list(view.items())
        half = len(items) // 2
        made.append(dict([*items[:half], *fields(n).items(), *items[half:]]))
    return made


def _apart(view: Record, n: int, count: int) -> Record:
    """The unknown fields stand between all others."""
    each = -(-count // len(view))
    made: Record = {}
    for at, (name, value) in enumerate(view.items()):
        made[name] = value
        made |= {f"u{k}": n + k for k in range(at * each, min(count, (at + 1) * each))}
    return made


def _text(record: Record) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


def _micros(cases: Mapping[str, pa.BinaryArray], policy: Policy, rounds: int) -> dict[str, float]:
    """CPU microseconds that a record of each case takes, the least of the rounds."""
    routing = Routing(TypeFrom("json", "type"), EventTime("json", "ts"), (), unknown_fields=policy)
    kafka = pa.array([1_741_737_600_000_000] * RECORDS, pa.timestamp("us", "UTC"))
    least: dict[str, float] = {}
    for _ in range(rounds):
        for name, values in cases.items():
            decoder = Decoder("page_view", COLUMNS, routing)
            decoder.decode(values.slice(0, WARM_RECORDS), kafka.slice(0, WARM_RECORDS))
            since = time.process_time()
            decoder.decode(values.slice(WARM_RECORDS), kafka.slice(WARM_RECORDS))
            taken = (time.process_time() - since) * 1e6 / (RECORDS - WARM_RECORDS)
            least[name] = min(taken, least.get(name, taken))
    return least
