"""[derive.<name>] with kind = "bundles": transactions that are put together from the rows of several tables."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from exporter.settings.table import Table

VIEW_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}\Z")
OUTPUT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")
TAKEN = frozenset({"input", "rule", "transaction", "done", "time", "topic", "partition", "epoch", "offset"})
"""What `complete` calls something else."""


def _views(given: dict[str, object]) -> dict[str, object]:
    for name in given:
        if not VIEW_NAME.match(name) or name.lower() in TAKEN:
            raise ValueError(f"{name!r} should be letters, digits and _, and none of {', '.join(sorted(TAKEN))}")
    return given


def _outputs(given: dict[str, object]) -> dict[str, object]:
    for name in given:
        if not OUTPUT_NAME.match(name):
            raise ValueError(f"{name!r} should be letters, digits, _, . and - only, at most 100, and begin with no _")
    return given


class InputTable(Table):
    """[derive.<name>.inputs.<input>]"""

    source: str = Field(examples=["order"])
    """Event type whose rows are members."""
    transaction: str = Field(examples=["order_id"])
    """SQL: the transaction that a row belongs to; a row for which it is NULL is no member."""
    done: str = Field(default="false", examples=["last"])
    """SQL: whether a row says that it is done."""
    time: str = Field(default="_kafka.timestamp", examples=["placed_at"])
    """SQL: a row's event time, by which transactions expire."""


class LookupTable(Table):
    """[derive.<name>.lookups.<view>]"""

    source: str = Field(examples=["customer"])
    """Event type whose whole table the view is."""


class RuleTable(Table):
    """[derive.<name>.shape.<rule>]: of one input, or a join of two."""

    input: str = ""
    """Event type whose rows are shaped, each on its own."""
    left: str = ""
    """Event type whose rows are joined, each with one of `right`."""
    right: str = ""
    """Event type that is joined to `left`."""
    left_key: str = ""
    """SQL: what a row of `left` has in common with one of `right`."""
    right_key: str = ""
    """The same of `right`."""
    join: Literal["inner", "left"] = "inner"
    """What becomes of a row of `left` alone."""
    within_secs: float | None = Field(default=None, gt=0)
    """Seconds that a row waits for its other side."""
    where: str = "true"
    """SQL: the rows that the rule is for, of either side."""
    select: str
    """SQL: the columns, of `input`, or of `left` and `right`."""
    output: str = ""
    """Output that the rows go to; by default the rule's name."""

    @model_validator(mode="after")
    def _one_of_both(self) -> RuleTable:
        joined = (self.left, self.right, self.left_key, self.right_key)
        if bool(self.input) == any(joined) or (any(joined) and not all(joined)):
            raise ValueError("should have either input, or all of left, right, left_key and right_key")
        if self.input and (self.within_secs is not None or self.join != "inner"):
            raise ValueError("should have within_secs and join only with left and right")
        if self.join == "left" and self.within_secs is None:
            raise ValueError("should have within_secs with join = \"left\": how long a row of `left` waits")
        _outputs({self.output: None} if self.output else {})
        return self


Views = AfterValidator(_views)


class BundlesTable(Table):
    """[derive.<name>], kind = "bundles"."""

    kind: Literal["bundles"] = Field(examples=["bundles"])
    """A table with what transactions of several rows come to."""
    inputs: Annotated[dict[str, InputTable], Views] = Field(
        default={}, examples=[{"orders": {"source": "order", "transaction": "order_id", "done": "last"}}]
    )
    """The members' tables, each as a view of this name."""
    complete: Annotated[int, Field(ge=1)] | str = Field(default="any", examples=["any"])
    """When a transaction is complete: `any` or `all` of its members are done, it has so many members, or SQL over them,
    such as `count_if(input = 'orders') > 0`."""
    lookups: Annotated[dict[str, LookupTable], Views] = Field(
        default={}, examples=[{"customers": {"source": "customer"}}]
    )
    """Tables that outputs may join, each as a view of this name, at one version of a run."""
    outputs: Annotated[dict[str, str], AfterValidator(_outputs)] = Field(
        default={}, examples=[{"totals": "SELECT _transaction, sum(amount) AS total FROM orders GROUP BY _transaction"}]
    )
    """Name of an output -> SQL over the views, with a column `_transaction`; each transaction's rows on their own."""
    expire_secs: float | None = Field(default=None, gt=0, examples=[86400])
    """Seconds by which the newest row may be newer than a transaction's first member; then it expires."""
    late: Literal["keep", "redo", "dead_letter"] = Field(default="keep", examples=["keep"])
    """What becomes of a member whose transaction is done or expired: it is noted as late; the transaction is made anew;
    or its row is kept in the table as well."""
    window_records_max: int = Field(default=1_000_000, ge=1, examples=[1_000_000])
    """Records of each source that one run takes at most, by their offsets."""
    shape: Annotated[dict[str, RuleTable], Views] = Field(
        default={}, examples=[{"placed": {"input": "order", "where": "op = 'c'", "select": "order_id, amount"}}]
    )
    """Rules instead of inputs and outputs: rows one by one, and joins of two."""

    @model_validator(mode="after")
    def _one_of_both(self) -> BundlesTable:
        if bool(self.shape) == bool(self.inputs) or bool(self.inputs) != bool(self.outputs):
            raise ValueError("should have either inputs and outputs, or shape")
        sides = [f"{name}_{side}" for name, rule in self.shape.items() if rule.left for side in ("left", "right")]
        names = [name.lower() for name in (*self.inputs, *self.lookups, *self.shape, *sides)]
        if len({*names}) < len(names):
            raise ValueError("two views have one name")
        if self.shape and {"complete", "expire_secs", "late"} & self.model_fields_set:
            raise ValueError("should have complete, expire_secs and late only with inputs: each rule has its own")
        return self
