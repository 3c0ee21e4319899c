"""View 3: the write-ahead log in DynamoDB. What was being done, by whom; the lease of a topic partition.

The tables are the truth. The log can be lost at any time, is rebuilt from them and never moves a position by itself.
This module must never write without a condition on the very item, never Scan, and never name a file. How its items
look is dynamodb_items.py's, how long a call may last dynamodb_calls.py's.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Any

from exporter.wal.dynamodb_calls import DEADLINE_SECS, Calls, Unmet, connect
from exporter.wal.dynamodb_items import (
    LEASE,
    LIVE,
    TTL_ATTRIBUTE,
    Item,
    from_item,
    lease_of,
    place,
    to_item,
    typed,
)
from offsets.intents import FORMAT, Intent, IntentKey, IntentState, WalMismatch, partition_key, sort_key
from offsets.leases import Lease, LeaseTaken
from offsets.ranges import TopicPartition

TRANSACTION_MAX = 100
"""Items that one TransactWriteItems may write."""

HISTORY_PAGES = 20
"""Answers of a megabyte, about 2,000 commits each, that one look through a partition's history takes at most."""

_DAY_SECS = 86_400
_STARTED = IntentState.STARTED.value
_EXPIRES = f"#{TTL_ATTRIBUTE} = :{TTL_ATTRIBUTE}"
_ALL_OLD = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
"""Of a write: what is there is told where its condition is not met."""


@dataclass(frozen=True)
class _Write:
    """One conditional write. settled: whether what is there instead, {} for nothing, is as good; may raise."""

    kind: str
    request: Mapping[str, Any]
    settled: Callable[[Item], bool]


class DynamoDbLog:
    """offsets.intents.WriteAheadLog in a table of DynamoDB: the log of one app.

    Its only state is the newest completed intents, of which each IntentKey has one writer.
    """

    def __init__(
        self, calls: Calls, table: str, app: str, keep_days: float = 14, now: Callable[[], float] = time.time
    ) -> None:
        """now: seconds since 1970, for expires_at only."""
        self.app = app
        self.table = table
        self._calls = calls
        self._keep_secs = int(keep_days * _DAY_SECS)
        self._now = now
        self._newest: dict[IntentKey, tuple[tuple[int, str], ...]] = {}

    @classmethod
    def connect(
        cls, table: str, app: str, endpoint: str = "", keep_days: float = 14, deadline_secs: float = DEADLINE_SECS
    ) -> DynamoDbLog:
        """endpoint: empty for AWS. Nothing is asked yet."""
        return cls(connect(endpoint, deadline_secs), table, app, keep_days)

    @property
    def counts(self) -> Mapping[str, int]:
        """Operation -> how often it was asked, whatever came of it."""
        return dict(self._calls.counts)

    @property
    def calls(self) -> Mapping[tuple[str, str], int]:
        """(call, answered, refused or unreachable) -> how often, so far."""
        return dict(self._calls.made)

    def start(self, intents: Sequence[Intent]) -> None:
        """Write all intents of one commit, none of which may be there. WalMismatch if one is, in another state."""
        writes = []
        for intent in intents:
            if intent.state is not IntentState.STARTED:
                raise ValueError(f"not a new intent: {intent!r}")
            writes.append([self._putting(intent, to_item(self.app, intent), "attribute_not_exists(pk)")])
        self._write(writes)

    def complete(self, intents: Sequence[Intent], version: int) -> None:
        """Note that they landed in this version of the table. Idempotent; an intent that is gone is written whole."""
        self.record([replace(intent, state=IntentState.COMPLETED, version=version) for intent in intents])

    def record(self, intents: Sequence[Intent]) -> None:
        """Write completed intents of their own versions: own ones, or from a table's history after the log was lost.

        Of an IntentKey only the newest stays for ever. WalMismatch if an item says that it failed, or landed elsewhere.
        """
        keys = {intent.key for intent in intents}
        newest = {key: max(intent.new for intent in intents if intent.key == key) for key in keys}
        groups, marks = [], {}
        for intent in intents:
            if intent.state is not IntentState.COMPLETED:
                raise ValueError(f"not a completed intent: {intent!r}")
            known = self._newest.get(intent.key, ())
            mark = (intent.new, sort_key(intent.key, intent.new, intent.commit_id))
            live = intent.new == newest[intent.key] and not any(position > intent.new for position, _ in known)
            old = [sk for _, sk in known if sk != mark[1]] if live else []
            demoted = [self._demoting(intent.key.tp, sk) for sk in old[: TRANSACTION_MAX - 1]]
            groups.append([self._completing(intent, live), *demoted])
            marks.update({intent.key: (mark,)} if live else {})
        self._write(groups)
        self._newest.update(marks)

    def fail(self, intents: Sequence[Intent]) -> None:
        """Note that they never landed and never will; when that may be said is for the caller (protocol, section 6)."""
        self._write([[self._failing(intent)] for intent in intents])

    def read(self, tp: TopicPartition) -> tuple[Intent, ...]:
        """Every started intent, and per IntentKey the newest completed one, by key and position; one Query.

        Raises WalMismatch for items that this version cannot read.
        """
        pk = partition_key(self.app, tp)
        request = {"IndexName": LIVE, **_expressions({":pk": pk}, KeyCondition="pk = :pk")}
        found = [one for page in self._pages(request) for one in page]
        started = [intent for intent in found if intent.state is IntentState.STARTED]
        completed = sorted((i for i in found if i.state is IntentState.COMPLETED), key=lambda i: (i.new, i.version))
        newest = {intent.key: intent for intent in completed}
        for key in newest:
            same = [intent for intent in completed if intent.key == key]
            self._newest[key] = tuple((i.new, sort_key(i.key, i.new, i.commit_id)) for i in same)
        return tuple(sorted([*started, *newest.values()], key=lambda i: (i.key, i.new)))

    def failed(self, tp: TopicPartition, pages_max: int = HISTORY_PAGES) -> tuple[tuple[Intent, ...], bool]:
        """The intents that never landed, oldest first, as long as they are remembered; and whether that is all of them.

        For people: nothing is decided by it. It goes through the whole history of the partition, or the first pages.
        """
        values = {":pk": partition_key(self.app, tp), ":head": "intent/", ":state": IntentState.FAILED.value}
        of_key = "pk = :pk AND begins_with(sk, :head)"
        pages = self._pages(_expressions(values, KeyCondition=of_key, Filter="#state = :state"))
        found = [one for page in islice(pages, pages_max) for one in page]
        return tuple(sorted(found, key=lambda one: (one.started_ms, one.key))), next(pages, None) is None

    def _pages(self, request: Mapping[str, Any]) -> Iterator[list[Intent]]:
        """The answers to one Query."""
        after: dict[str, Any] = {}
        while True:
            answer = self._calls.call("query", TableName=self.table, ConsistentRead=True, **request, **after)
            yield [from_item(item) for item in answer["Items"]]
            if not answer.get("LastEvaluatedKey"):
                return
            after = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def acquire(self, tp: TopicPartition, owner: str, watched: Lease | None = None, routing: str = "") -> Lease:
        """Take a lease that is not there, released, one's own, or still as `watched`; raises LeaseTaken.

        The token rises with each taking.
        """
        condition = "attribute_not_exists(pk) OR #state = :released OR #owner = :owner"
        values: dict[str, str | int] = {":owner": owner, ":routing": routing, ":zero": 0, ":one": 1}
        values |= {":held": "held", ":released": "released", ":format": FORMAT}
        if watched is not None:
            condition += " OR (#token = :token AND #counter = :counter)"
            values |= {":token": watched.token, ":counter": watched.counter}
        sets = "SET #owner = :owner, #routing = :routing, #counter = :zero, #state = :held, #format = :format"
        request = self._lease_request(tp, f"{sets} ADD #token :one", condition, values)
        try:
            answer = self._calls.call("update_item", **request, ReturnValues="ALL_NEW")
        except Unmet as error:
            raise LeaseTaken(tp, lease_of(tp, error.items[0])) from None
        return lease_of(tp, answer["Attributes"])

    def renew(self, lease: Lease) -> Lease:
        """The lease with its counter raised by a write of this call; LeaseTaken if it is not this one any more.

        What an earlier call wrote, whose answer was lost, may have been seen by a challenger long ago: it counts for
        nothing, and the counter is raised once more.
        """
        while True:
            renewed = replace(lease, counter=lease.counter + 1)
            values: dict[str, str | int] = {":owner": lease.owner, ":token": lease.token, ":held": "held"}
            values |= {":counter": lease.counter, ":next": renewed.counter}
            condition = "#owner = :owner AND #token = :token AND #counter = :counter AND #state = :held"
            request = self._lease_request(lease.tp, "SET #counter = :next", condition, values)
            try:
                self._calls.call("update_item", **request)
                return renewed
            except Unmet as error:
                found = lease_of(lease.tp, error.items[0]) if error.items[0] else None
            if found != renewed:
                raise LeaseTaken(lease.tp, found)
            lease = renewed

    def release(self, lease: Lease) -> None:
        """Let whoever comes take it at once; nothing happens if it is not ours any more."""
        values: dict[str, str | int] = {":owner": lease.owner, ":token": lease.token, ":released": "released"}
        condition = "#owner = :owner AND #token = :token"
        request = self._lease_request(lease.tp, "SET #state = :released", condition, values)
        try:
            self._calls.call("update_item", **request)
        except Unmet:
            return

    def lease(self, tp: TopicPartition) -> Lease | None:
        """What the log says of the lease now."""
        answer = self._calls.call("get_item", TableName=self.table, Key=self._key(tp, LEASE), ConsistentRead=True)
        return lease_of(tp, answer["Item"]) if answer.get("Item") else None

    def _completing(self, intent: Intent, live: bool) -> _Write:
        item = to_item(self.app, intent, live, None if live else self._expires_at())
        return self._putting(intent, item, "attribute_not_exists(pk) OR #state = :started", {":started": _STARTED})

    def _demoting(self, tp: TopicPartition, sk: str) -> _Write:
        update, values = f"SET {_EXPIRES} REMOVE #{LIVE}", {f":{TTL_ATTRIBUTE}": self._expires_at()}
        request = _expressions(values, Update=update, Condition="attribute_exists(pk)")
        return _Write("Update", {"Key": self._key(tp, sk), **request}, lambda item: not item)

    def _failing(self, intent: Intent) -> _Write:
        key = self._key(intent.key.tp, sort_key(intent.key, intent.new, intent.commit_id))
        values: dict[str, str | int] = {":failed": IntentState.FAILED.value, ":started": _STARTED}
        values |= {f":{TTL_ATTRIBUTE}": self._expires_at()}
        update = f"SET #state = :failed, {_EXPIRES} REMOVE #{LIVE}"
        request = {"Key": key, **_expressions(values, Update=update, Condition="#state = :started")}
        return _Write("Update", request, lambda item: not item or from_item(item).state is IntentState.FAILED)

    def _putting(
        self, intent: Intent, item: Item, condition: str, values: Mapping[str, str | int] = MappingProxyType({})
    ) -> _Write:
        return _Write("Put", {"Item": item, **_expressions(values, Condition=condition)}, _same_as(intent))

    def _write(self, groups: Iterable[Sequence[_Write]]) -> None:
        """Each group at once, or not at all; as many of them in one call as it may hold."""
        batch: list[_Write] = []
        for group in groups:
            if len(batch) + len(group) > TRANSACTION_MAX:
                self._send(batch)
                batch = []
            batch += group
        self._send(batch)

    def _send(self, batch: Sequence[_Write]) -> None:
        """What is there already as it should be is left out, and the rest sent again. WalMismatch for what is not."""
        while batch:
            try:
                self._call_writes(batch)
                return
            except Unmet as error:
                for number, item in error.items.items():
                    if not batch[number].settled(item):
                        there = place(item) if item else "nothing"
                        raise WalMismatch(f"the log does not hold what it should, but {there}") from None
                batch = [write for number, write in enumerate(batch) if number not in error.items]

    def _call_writes(self, batch: Sequence[_Write]) -> None:
        common = {"TableName": self.table, **_ALL_OLD}
        if len(batch) == 1:
            one = {"Put": "put_item", "Update": "update_item"}[batch[0].kind]
            self._calls.call(one, **batch[0].request, **common)
        else:
            items = [{write.kind: {**write.request, **common}} for write in batch]
            self._calls.call("transact_write_items", TransactItems=items)

    def _lease_request(
        self, tp: TopicPartition, update: str, condition: str, values: Mapping[str, str | int]
    ) -> dict[str, Any]:
        common = {"TableName": self.table, "Key": self._key(tp, LEASE), **_ALL_OLD}
        return {**common, **_expressions(values, Update=update, Condition=condition)}

    def _key(self, tp: TopicPartition, sk: str) -> Item:
        return {"pk": typed(partition_key(self.app, tp)), "sk": typed(sk)}

    def _expires_at(self) -> int:
        return int(self._now()) + self._keep_secs


def _expressions(values: Mapping[str, str | int], **expressions: str) -> dict[str, Any]:
    """The parts of a request that speak of attributes. values: of `:name`; `#name` stands for the attribute `name`."""
    request: dict[str, Any] = {f"{name}Expression": text for name, text in expressions.items()}
    if names := sorted(set(re.findall("#[a-z_]+", " ".join(expressions.values())))):
        request["ExpressionAttributeNames"] = {name: name[1:] for name in names}
    if values:
        request["ExpressionAttributeValues"] = {name: typed(value) for name, value in values.items()}
    return request


def _same_as(intent: Intent) -> Callable[[Item], bool]:
    """An item of the same commit in the same state: this process's own, whose answer was lost, or a finisher's."""

    def settled(item: Item) -> bool:
        found = from_item(item)
        if (found.state, found.version) == (intent.state, intent.version):
            return True
        raise WalMismatch(
            f"{intent.key.tp} {intent.key.event_type}: the log says that commit {intent.commit_id} is "
            f"{found.state.value} (version {found.version}), this process that it is {intent.state.value} "
            f"(version {intent.version})"
        )

    return settled
