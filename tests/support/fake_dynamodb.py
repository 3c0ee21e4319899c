"""DynamoDB in memory, at the level of boto3's client, stricter than the real one.

Only what the write-ahead log may use: keyed, conditional writes, consistent reads, no Scan. Whatever else is asked is
an AssertionError, which no code catches: unconditional writes, unknown attributes and expressions, empty texts in
keys, names and values that the expression does not use, more than 100 items in a transaction.
"""

from __future__ import annotations

import copy
import functools
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from exporter.wal.dynamodb import TRANSACTION_MAX
from exporter.wal.dynamodb_items import LIVE, TABLE

Item = dict[str, Any]

INTENT = {"pk", "sk", "format", "event_type", "epoch", "state", "commit_id", "owner", "table_id", "routing", "expected",
          "new", "first", "last", "rows", "checked_through", "started_ms", "version", "live", "expires_at"}  # fmt: skip
LEASE = {"pk", "sk", "format", "owner", "token", "counter", "routing", "state"}
WRITE = {"TableName", "ConditionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues",
         "ReturnValuesOnConditionCheckFailure"}  # fmt: skip
FAILED = {"KeyConditionExpression": "pk = :pk AND begins_with(sk, :head)", "FilterExpression": "#state = :state",
          "ExpressionAttributeNames": {"#state": "state"}}  # fmt: skip
"""The one query of the history; as with the real one, what its filter leaves out still fills its pages."""

_TERM = re.compile(
    r"(?P<there>attribute_exists|attribute_not_exists)\((?P<of>pk)\)|(?P<left>#[a-z_]+) = (?P<right>:[a-z_]+)"
)
_UPDATES = {"SET": r"(#\w+) = (:\w+)", "REMOVE": r"(#\w+)()", "ADD": r"(#\w+) (:\w+)"}


class FakeDynamoDb:
    """One account and region. calls: operation -> how often it was asked, refused calls included."""

    def __init__(self, page: int = 1_000) -> None:
        """page: items of one answer of query."""
        self.tables: dict[str, dict[tuple[str, str], Item]] = {}
        self.calls: Counter[str] = Counter()
        self._ttl: dict[str, str] = {}
        self._backups: set[str] = set()
        self._page = page
        self._lock = threading.RLock()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found):
            return found

        @functools.wraps(found)
        def counted(**request: Any) -> Any:
            with self._lock:
                self.calls[name] += 1
                return copy.deepcopy(found(**copy.deepcopy(request)))

        return counted

    # Tables

    def create_table(self, TableName: str, **definition: Any) -> Item:
        if TableName in self.tables:
            raise failure("ResourceInUseException", "CreateTable")
        assert definition == TABLE
        self.tables[TableName] = {}
        return self._description(TableName)

    def delete_table(self, TableName: str) -> Item:
        self._items(TableName)
        del self.tables[TableName]
        self._ttl.pop(TableName, None)
        self._backups.discard(TableName)
        return {}

    def describe_table(self, TableName: str) -> Item:
        self._items(TableName)
        described = self._description(TableName)
        return {"Table": described["TableDescription"]}

    def describe_time_to_live(self, TableName: str) -> Item:
        self._items(TableName)
        if TableName not in self._ttl:
            return {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}
        return {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": self._ttl[TableName]}}

    def update_time_to_live(self, TableName: str, TimeToLiveSpecification: Mapping[str, Any]) -> Item:
        self._items(TableName)
        assert TimeToLiveSpecification["Enabled"] is True
        if TableName in self._ttl:
            raise failure("ValidationException", "UpdateTimeToLive", "TimeToLive is already enabled")
        self._ttl[TableName] = TimeToLiveSpecification["AttributeName"]
        return {}

    def describe_continuous_backups(self, TableName: str) -> Item:
        self._items(TableName)
        status = "ENABLED" if TableName in self._backups else "DISABLED"
        return {
            "ContinuousBackupsDescription": {"PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": status}}
        }

    def update_continuous_backups(self, TableName: str, PointInTimeRecoverySpecification: Mapping[str, Any]) -> Item:
        self._items(TableName)
        assert PointInTimeRecoverySpecification == {"PointInTimeRecoveryEnabled": True}
        self._backups.add(TableName)
        return {}

    # Items

    def put_item(self, **request: Any) -> Item:
        items = self._items(request["TableName"])
        place, changed = self._put(items, request)
        items[place] = changed
        return {}

    def update_item(self, **request: Any) -> Item:
        returns = request.pop("ReturnValues", None)
        assert returns in (None, "ALL_NEW")
        items = self._items(request["TableName"])
        place, changed = self._update(items, request)
        items[place] = changed
        return {"Attributes": changed} if returns else {}

    def transact_write_items(self, TransactItems: list[Item]) -> Item:
        assert 2 <= len(TransactItems) <= TRANSACTION_MAX
        changes, reasons = {}, []
        for one in TransactItems:
            ((kind, request),) = one.items()
            items = self._items(request["TableName"])
            try:
                place, changed = {"Put": self._put, "Update": self._update}[kind](items, request)
                assert (request["TableName"], place) not in changes, "one item twice in a transaction"
                changes[request["TableName"], place] = changed
                reasons.append({"Code": "None"})
            except ClientError as error:
                there = error.response.get("Item")
                reasons.append({"Code": "ConditionalCheckFailed", **({"Item": there} if there else {})})
        if any(reason["Code"] != "None" for reason in reasons):
            raise failure("TransactionCanceledException", "TransactWriteItems", CancellationReasons=reasons)
        for (table, place), changed in changes.items():
            self.tables[table][place] = changed
        return {}

    def get_item(self, TableName: str, Key: Item, ConsistentRead: bool) -> Item:
        assert ConsistentRead is True
        found = self._items(TableName).get(_place(Key))
        return {"Item": found} if found else {}

    def query(self, TableName: str, **request: Any) -> Item:
        items = self._items(TableName)
        start = request.pop("ExclusiveStartKey", None)
        assert request.pop("ConsistentRead") is True
        values = request.pop("ExpressionAttributeValues")
        if request.get("IndexName") == LIVE:
            assert request == {"IndexName": LIVE, "KeyConditionExpression": "pk = :pk"} and list(values) == [":pk"]
            key, head = LIVE, ""
        else:
            assert request == FAILED and values.keys() == {":pk", ":head", ":state"}
            key, head = "sk", _text(values[":head"])
        pk, after = _text(values[":pk"]), "" if start is None else start[key]["S"]
        found = sorted(
            (item for (at, _), item in items.items() if at == pk and key in item and item[key]["S"].startswith(head)),
            key=lambda item: item[key]["S"],
        )
        found = [item for item in found if item[key]["S"] > after]
        page = found[: self._page]
        wanted = [item for item in page if ":state" not in values or item.get("state") == values[":state"]]
        answer: Item = {"Items": wanted}
        if len(found) > self._page:
            answer["LastEvaluatedKey"] = {name: page[-1][name] for name in {"pk", "sk", key}}
        return answer

    # Within

    def _items(self, table: str) -> dict[tuple[str, str], Item]:
        if table not in self.tables:
            raise failure("ResourceNotFoundException", "any", "Cannot do operations on a non-existent table")
        return self.tables[table]

    def _description(self, table: str) -> Item:
        billing = {"BillingModeSummary": {"BillingMode": TABLE["BillingMode"]}}
        described = {"TableName": table, "TableStatus": "ACTIVE", **copy.deepcopy(TABLE), **billing}
        del described["BillingMode"]
        return {"TableDescription": described}

    def _put(self, items: Mapping[tuple[str, str], Item], request: Item) -> tuple[tuple[str, str], Item]:
        item = request["Item"]
        assert request.keys() <= WRITE | {"Item"}
        place = _place({name: item[name] for name in ("pk", "sk")})
        self._check(items.get(place), request, "")
        return place, _valid(item)

    def _update(self, items: Mapping[tuple[str, str], Item], request: Item) -> tuple[tuple[str, str], Item]:
        assert request.keys() <= WRITE | {"Key", "UpdateExpression"}
        place = _place(request["Key"])
        self._check(items.get(place), request, request["UpdateExpression"])
        item = dict(items.get(place, request["Key"]))
        names, values = request.get("ExpressionAttributeNames", {}), request.get("ExpressionAttributeValues", {})
        words = re.split(r"\b(SET|REMOVE|ADD) ", request["UpdateExpression"])
        assert words[0] == ""
        for verb, terms in zip(words[1::2], words[2::2], strict=True):
            for term in terms.strip().split(", "):
                parts = re.fullmatch(_UPDATES[verb], term)
                assert parts, f"unknown expression {term!r}"
                name = names[parts[1]]
                assert name not in ("pk", "sk")
                if verb == "REMOVE":
                    item.pop(name, None)
                elif verb == "SET":
                    item[name] = values[parts[2]]
                else:
                    item[name] = {"N": str(int(item.get(name, {"N": "0"})["N"]) + int(values[parts[2]]["N"]))}
        return place, _valid(item)

    def _check(self, there: Item | None, request: Item, update: str) -> None:
        """AssertionError for what no expression may be; ClientError if the condition is not met."""
        condition = request.get("ConditionExpression", "")
        assert condition, "an unconditional write"
        assert request["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"
        names, values = request.get("ExpressionAttributeNames", {}), request.get("ExpressionAttributeValues", {})
        used = f"{update} {condition}"
        assert set(names) == set(re.findall(r"#\w+", used)), "names that are not used, or not given"
        assert set(values) == set(re.findall(r":\w+", used)), "values that are not used, or not given"
        assert set(names.values()) <= INTENT | LEASE
        clauses = [clause[1:-1] if clause.startswith("(") else clause for clause in condition.split(" OR ")]
        met = [[_holds(term, there, names, values) for term in clause.split(" AND ")] for clause in clauses]
        if not any(map(all, met)):
            raise failure("ConditionalCheckFailedException", "write", **({"Item": there} if there else {}))


def _holds(term: str, there: Item | None, names: Mapping[str, str], values: Mapping[str, Item]) -> bool:
    match = _TERM.fullmatch(term)
    assert match, f"unknown condition {term!r}"
    if match["there"]:
        return (there is not None) == (match["there"] == "attribute_exists")
    return there is not None and there.get(names[match["left"]]) == values[match["right"]]


def _place(key: Item) -> tuple[str, str]:
    assert key.keys() == {"pk", "sk"}
    return _text(key["pk"]), _text(key["sk"])


def _text(value: Item) -> str:
    assert list(value) == ["S"]
    assert value["S"], "an empty text in a key"
    return str(value["S"])


def _valid(item: Item) -> Item:
    """The item, if it is one of the two kinds, all typed; nothing live expires, history always does."""
    lease = item["sk"]["S"] == "lease"
    assert item.keys() <= (LEASE if lease else INTENT)
    for name, value in item.items():
        ((kind, content),) = value.items()
        assert isinstance(content, str), name
        assert kind == "S" or (kind == "N" and re.fullmatch("-?[0-9]+", content)), name
    if not lease:
        assert (LIVE in item) != ("expires_at" in item), "neither live nor history"
        assert LIVE not in item or _text(item[LIVE])
    return item


def failure(code: str, operation: str, message: str = "", status: int = 400, **members: Any) -> ClientError:
    """What the client raises for an answer that is an error."""
    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}, **members}
    return ClientError(answer, operation)  # type: ignore[arg-type]


Around = Callable[[str, Callable[[], Any]], Any]
"""What happens around a call: (operation, go on) -> answer."""


class Wrapped:
    """A client, real or fake, whose every call goes through `around`: lost answers, failures, counting."""

    def __init__(self, client: Any, around: Around) -> None:
        self._client = client
        self._around = around

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._client, name)
        if not callable(real):
            return real
        return lambda **request: self._around(name, lambda: real(**request))
