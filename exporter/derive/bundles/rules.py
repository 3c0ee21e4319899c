"""What a job of bundles is asked to do: rules, each with its inputs and outputs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from exporter.settings.derive_bundles import BundlesTable, RuleTable
from exporter.sql_text import column, literal

Late = Literal["keep", "redo", "dead_letter", "again"]
KEY = "_transaction"
"""Column of the views and of the outputs: the transaction."""
TIME = "_time"
"""Column of the views: the member's event time."""
_COMPLETE = {"any": "bool_or(done)", "all": "bool_and(done)"}


@dataclass(frozen=True)
class Input:
    """Rows of a source that are members. name: of the view. transaction, done, time: SQL of a row."""

    name: str
    source: str
    transaction: str
    done: str = "false"
    time: str = "_kafka.timestamp"

    @property
    def statement(self) -> str:
        """As a person reads it; what is read is that of the offsets that are new."""
        return (
            f"{self.name}: SELECT *, CAST(({self.transaction}) AS STRING) AS {KEY}, ({self.done}) AS done, "
            f"({self.time}) AS {TIME} FROM {column(self.source)}"
        )


@dataclass(frozen=True)
class BundleRule:
    """How transactions of some inputs are completed, and what they come to.

    complete: SQL over a transaction's members. rescue: the same, asked of one that expires: whether it is done by that.
    outputs: (name, SQL over the views). expire_secs: None for never. late: as in the settings; `again`: whoever comes
    later begins a transaction of the same key.
    """

    name: str
    inputs: tuple[Input, ...]
    outputs: tuple[tuple[str, str], ...]
    complete: str
    rescue: str = "false"
    expire_secs: float | None = None
    late: Late = "keep"

    def asks_for(self, one: Input) -> bool:
        """Whether a condition names columns of an input's rows."""
        return re.search(rf"\b{one.name}\b\s*\.", self.complete, re.IGNORECASE) is not None


def rules_of(table: BundlesTable) -> tuple[BundleRule, ...]:
    """The rules of a job's settings, in their order."""
    if table.shape:
        return tuple(_shaped(name, rule) for name, rule in table.shape.items())
    inputs = tuple(Input(name, one.source, one.transaction, one.done, one.time) for name, one in table.inputs.items())
    asked = table.complete
    complete = f"count(*) >= {asked}" if isinstance(asked, int) else _COMPLETE.get(asked, asked)
    outputs = tuple(table.outputs.items())
    return (BundleRule("", inputs, outputs, complete, "false", table.expire_secs, table.late),)


def pairs(rules: Sequence[BundleRule]) -> Iterator[tuple[BundleRule, Input]]:
    """Each input with its rule."""
    return ((rule, one) for rule in rules for one in rule.inputs)


def sources_of(rules: Sequence[BundleRule]) -> tuple[str, ...]:
    """The event types that rules read, each once."""
    return tuple(dict.fromkeys(one.source for _, one in pairs(rules)))


def _shaped(name: str, rule: RuleTable) -> BundleRule:
    output = rule.output or name
    if rule.input:
        of_row = "_kafka.topic, _kafka.partition, coalesce(_kafka.epoch, 0), _kafka.offset"
        place = f"concat_ws('/', {literal(name)}, {of_row})"
        one = Input(name, rule.input, f"CASE WHEN {rule.where} THEN {place} END", "true")
        return BundleRule(
            name, (one,), ((output, f"SELECT {KEY}, {rule.select} FROM {column(name)} AS `input`"),), "true"
        )
    left, right = (
        Input(f"{name}_{side}", source, f"CASE WHEN {rule.where} THEN concat({literal(f'{name}/')}, {key}) END")
        for side, source, key in (("left", rule.left, rule.left_key), ("right", rule.right, rule.right_key))
    )
    query = (
        f"SELECT `left`.{KEY}, {rule.select} FROM {column(left.name)} AS `left` "
        f"{rule.join.upper()} JOIN {column(right.name)} AS `right` ON `left`.{KEY} = `right`.{KEY}"
    )
    has = {one.name: f"count_if(input = {literal(one.name)}) > 0" for one in (left, right)}
    complete = f"{has[left.name]} AND {has[right.name]}"
    rescue = has[left.name] if rule.join == "left" else "false"
    return BundleRule(name, (left, right), ((output, query),), complete, rescue, rule.within_secs, "again")
