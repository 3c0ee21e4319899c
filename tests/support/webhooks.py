"""Payloads as a code host sends them to a webhook: nested, with arrays, the type in a header or in the payload.

Two places hold kinds that do not meet, one is an object with a key for every file.
"""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta, timezone
from typing import Any

from tests.support.services import Record

HEADER = "X-Code-Event"
AT = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
KINDS = (
    "push", "issue.opened", "issue.closed", "pull_request", "review", "release", "star", "fork", "member", "status",
)  # fmt: skip


def payloads(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """So many of all kinds, in a mix; every kind is among the first twenty."""
    made = random.Random(seed)
    return [payload(made, KINDS[number % 10] if number < 20 else made.choice(KINDS), number) for number in range(count)]


def payload(made: random.Random, kind: str, number: int) -> dict[str, Any]:
    """One event; times lie a second apart."""
    at = AT + timedelta(seconds=number)
    common = {
        "event": kind,
        "delivery": f"{made.getrandbits(64):016x}",
        "sent_ms": int(at.timestamp() * 1000) + made.randrange(1000),
        "sender": {"id": made.randrange(10**6), "login": f"user{made.randrange(300)}", "admin": made.random() < 0.1},
        "repository": {
            "id": made.randrange(10**6), "full_name": f"org/repo{made.randrange(50)}", "private": made.random() < 0.5,
            "created_at": "2019-05-01T10:00:00Z", "topics": [f"t{made.randrange(9)}" for _ in range(made.randrange(3))],
            "license": made.choice([None, {"key": "mit", "spdx_id": "MIT"}]),
        },
    }  # fmt: skip
    return {**common, **_OWN[kind](made, number)}


def record(value: dict[str, Any], with_header: bool = False) -> Record:
    """As it is produced; with_header: the type stands there, and not in the payload."""
    at_ms = value["sent_ms"] + 250
    kind = value["event"]
    value = {name: inner for name, inner in value.items() if not (with_header and name == "event")}
    headers = [(HEADER, kind.encode())] if with_header else []
    return Record(None, json.dumps(value).encode(), headers, at_ms)


def _push(made: random.Random, number: int) -> dict[str, Any]:
    files = [f"src/{made.getrandbits(48):012x}.py" for _ in range(20)]
    return {
        "ref": "refs/heads/main", "forced": False, "size": made.randrange(9),
        "commits": [{"id": f"{made.getrandbits(160):040x}", "timestamp": "2026-01-30T09:00:00+01:00",
                     "added": files[:2], "author": {"name": "A", "email": "a@b.example"}}
                    for _ in range(1 + made.randrange(3))],
        "stats": {name: {"added": made.randrange(9), "removed": made.randrange(9)} for name in files},
    }  # fmt: skip


def _issue(made: random.Random, number: int) -> dict[str, Any]:
    milestone = "v1" if number % 2 else {"title": "v1", "due_on": "2026-02-01"}
    return {"issue": {"number": number, "title": f"i {number}", "labels": [{"name": "bug", "color": "f00"}],
                      "body": made.choice([None, "text"]), "score": number / 4}, "milestone": milestone}  # fmt: skip


def _pull(made: random.Random, number: int) -> dict[str, Any]:
    return {"number": number, "merged": made.random() < 0.5, "base": {"ref": "main", "sha": "aa"},
            "head": {"ref": "x", "sha": "bb"}, "requested": [{"login": "u1"}, {"login": "u2", "team": True}],
            "merged_at": made.choice([None, "2026-01-31T11:59:59.123456Z"])}  # fmt: skip


def _review(made: random.Random, number: int) -> dict[str, Any]:
    return {"review": {"state": made.choice(["approved", "commented"]), "lines": [[1, 2], [5, made.randrange(9)]]}}


def _release(made: random.Random, number: int) -> dict[str, Any]:
    size = number if number % 3 else f"{number} kB"
    return {"tag": f"v{number}", "published_on": "2026-01-31", "assets": [{"name": "a.zip", "size": size}]}


_OWN: dict[str, Any] = {
    "push": _push, "issue.opened": _issue, "issue.closed": _issue, "pull_request": _pull, "review": _review,
    "release": _release,
    "star": lambda made, number: {"action": "created", "starred_at": "2026-01-31T12:00:00Z"},
    "fork": lambda made, number: {"forkee": {"id": number, "owner": {"login": "x", "plan": {}}}, "empty": []},
    "member": lambda made, number: {"member": {"login": "y"}, "permission": made.choice(["read", "write"])},
    "status": lambda made, number: {"state": made.choice(["ok", "failed"]), "context": "ci", "took": made.random()},
}  # fmt: skip
