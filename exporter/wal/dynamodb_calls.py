"""Calls to DynamoDB, each with a deadline for all its tries, and what its refusals mean."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from exporter import aws
from exporter.core.backoff import Backoff
from exporter.wal.dynamodb_items import Item
from offsets.intents import WalMismatch, WalUnreachable

DEADLINE_SECS = 15.0
"""For one call with all its tries, unless another is given."""

PAUSE = Backoff(0.05, 1.0)
"""Between two tries: the client's own within one call of it, and ours between its calls."""


class Unmet(Exception):
    """Conditions that were not met. items: number of the write -> what is there, {} for nothing."""

    def __init__(self, items: Mapping[int, Item]) -> None:
        super().__init__(f"{len(items)} conditions not met")
        self.items = items


@dataclass(eq=False, repr=False)
class Calls:
    """The client's calls, each with a deadline for all its tries; what botocore raises becomes an error of ours.

    The client itself tries again, and it is called again as long as there is time for that. Its adaptive mode may hold
    back a try for up to 2 s after throttling, which comes on top.

    local: the endpoint was given, so it may be DynamoDB Local, which lacks backups.
    """

    client: Any
    deadline_secs: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    local: bool = False

    def __post_init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.made: Counter[tuple[str, str]] = Counter()
        """How many calls came to which end: (name, answered, refused or unreachable); for those who watch."""

    def call(self, name: str, **request: Any) -> dict[str, Any]:
        """The answer. Raises Unmet, WalUnreachable, WalMismatch."""
        from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

        ends, slowest = self.clock() + self.deadline_secs, CallPatience.within(self.deadline_secs).slowest_secs
        tries = 0
        while True:
            pause = PAUSE.after(tries)
            try:
                self.counts[name] += 1
                answer: dict[str, Any] = getattr(self.client, name)(**request)
                self.made[name, "answered"] += 1
                return answer
            except ParamValidationError:
                raise
            except (BotoCoreError, ClientError) as error:
                if unmet := _unmet(error):
                    self.made[name, "refused"] += 1
                    raise unmet from error
                again = _may_help(error)
                left = ends - self.clock() - pause - slowest
                if not again or left < 0:
                    self.made[name, "unreachable" if again else "refused"] += 1
                    raise _explained(name, error) from error
            self.sleep(pause)
            tries += 1


@dataclass(frozen=True)
class CallPatience:
    """How long one call of the client may last, so that several fit into a deadline.

    timeout_secs: for connecting and for an answer, each. attempts: the client's own, for which it pauses.
    """

    timeout_secs: float
    attempts: int

    @classmethod
    def within(cls, deadline_secs: float) -> CallPatience:
        return cls(min(2.0, deadline_secs / 8), 2 if deadline_secs >= 4 * PAUSE.most_secs else 1)

    @property
    def slowest_secs(self) -> float:
        return self.attempts * 2 * self.timeout_secs + (self.attempts - 1) * PAUSE.most_secs


_CONDITION = "ConditionalCheckFailed"
_PASSING = {
    "ProvisionedThroughputExceeded", "ThrottlingError", "Throttling", "RequestLimitExceeded", "InternalServerError",
    "ServiceUnavailable", "TransactionConflict", "TransactionInProgress", "LimitExceeded",
    "ContinuousBackupsUnavailable", "ExpiredToken",
}  # fmt: skip


def connect(endpoint: str = "", deadline_secs: float = DEADLINE_SECS) -> Calls:
    """A client of the account and region that boto3 finds; endpoint: empty for AWS. Nothing is asked yet."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    patience = CallPatience.within(deadline_secs)
    config = Config(
        connect_timeout=patience.timeout_secs,
        read_timeout=patience.timeout_secs,
        retries={"mode": "adaptive", "total_max_attempts": patience.attempts},
        tcp_keepalive=True,
    )
    try:
        session = boto3.session.Session(botocore_session=aws.session())
        client = session.client("dynamodb", endpoint_url=endpoint or None, config=config)
    except (BotoCoreError, ValueError) as error:
        raise WalUnreachable(f"no DynamoDB client: {error}") from error
    return Calls(client, deadline_secs, local=bool(endpoint))


def _unmet(error: Any) -> Unmet | None:
    """The conditions that were not met; None if it was something else."""
    from botocore.exceptions import ClientError

    if not isinstance(error, ClientError):
        return None
    if error.response["Error"]["Code"].removesuffix("Exception") == _CONDITION:
        return Unmet({0: error.response.get("Item", {})})
    reasons = error.response.get("CancellationReasons", [])
    items = {n: reason.get("Item", {}) for n, reason in enumerate(reasons) if reason["Code"] == _CONDITION}
    return Unmet(items) if items else None


def _may_help(error: Any) -> bool:
    """Whether the same call may succeed later, by itself."""
    from botocore.exceptions import ClientError, HTTPClientError

    if not isinstance(error, ClientError):
        return isinstance(error, HTTPClientError)
    code = error.response["Error"]["Code"].removesuffix("Exception")
    if code == "TransactionCanceled":
        reasons = error.response.get("CancellationReasons", [])
        return all(reason["Code"] in {"None", *_PASSING} for reason in reasons)
    return code in _PASSING or error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500


def _explained(name: str, error: Any) -> WalUnreachable | WalMismatch:
    """One short sentence, without the request."""
    from botocore.exceptions import ClientError

    if not isinstance(error, ClientError):
        return WalUnreachable(f"{name}: {str(error)[:200]}")
    code, says = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
    text = f"{name}: {code}: {says[:200]}"
    if code == "ResourceNotFoundException":
        return WalUnreachable(text, table_missing=True, code=code)
    wrong = code == "ValidationException" or any(
        reason["Code"] == "ValidationError" for reason in error.response.get("CancellationReasons", [])
    )
    return WalMismatch(text) if wrong else WalUnreachable(text, code=code)
