"""What a job of bundles is to make, in plain Python, from the same rows in the same runs.

Written from PROTOCOL.md 9.6 alone: it shares no code with the job. Two inputs, `a` and `b`, of a row's columns `txn`,
`done` and `v`; two outputs: `totals`, the count and sum of a transaction's rows of `a`, and `parts`, each row of `b`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

OUTPUTS = {
    "totals": "SELECT _transaction, count(*) AS n, sum(v) AS total FROM a GROUP BY _transaction",
    "parts": "SELECT _transaction, v AS part FROM b",
}


@dataclass(frozen=True)
class Member:
    """One row. key: None for a row that is no member."""

    input: str
    partition: int
    offset: int
    secs: int
    key: str | None
    done: bool
    v: int


@dataclass
class Oracle:
    """complete: of a transaction's members. late: keep, redo or dead_letter. most: offsets that one run takes."""

    complete: Callable[[list[Member]], bool]
    expire_secs: int | None
    late: str
    most: int
    rows: dict[str, list[Member]] = field(default_factory=lambda: {"a": [], "b": []})
    taken: dict[tuple[str, int], int] = field(default_factory=dict)
    ledger: dict[Member, tuple[str, int]] = field(default_factory=dict)
    out: list[tuple[int, str, str, int, tuple[int, ...]]] = field(default_factory=list)
    seen: list[Member] = field(default_factory=list)
    newest: int = 0
    runs: int = 0

    def run(self) -> bool:
        """One run; whether there is more."""
        news, more = self._window()
        if not news and not more:
            return False
        self.runs += 1
        self.seen += [one for one in news if one.key is not None]
        new = [one for one in self.seen if one not in self.ledger]
        self.newest = max([self.newest, *(one.secs for one in new)])
        done: list[tuple[tuple[int, int, int], str, list[Member]]] = []
        for key in {one.key for one in new if one.key}:
            members = [one for one in new if one.key == key]
            former = [one for one in self.ledger if one.key == key]
            state, of = self._state(members, former, more)
            if state:
                self.ledger |= dict.fromkeys(members, (state, self.runs))
            if state == "done":
                done.append((max(self._at(one, new) for one in members), key, of))
        for _, key, of in sorted(done, key=lambda one: (one[0], one[1])):
            self._put(key, of)
        return more

    def _state(self, members: list[Member], former: list[Member], more: bool) -> tuple[str | None, list[Member]]:
        if former:
            redone = self.late == "redo" and self.complete(former + members)
            return ("done", former + members) if redone else ("late", members)
        if self.complete(members):
            return "done", members
        age = self.newest - min(one.secs for one in members)
        expired = self.expire_secs is not None and age > self.expire_secs and not more
        return ("expired", members) if expired else (None, [])

    def _put(self, key: str, members: Iterable[Member]) -> None:
        of = {name: [one.v for one in members if one.input == name] for name in ("a", "b")}
        if of["a"]:
            self.out.append((len(self.out) + 1, "totals", key, self.runs, (len(of["a"]), sum(of["a"]))))
        for v in sorted(of["b"]):
            self.out.append((len(self.out) + 1, "parts", key, self.runs, (v,)))

    @staticmethod
    def _at(one: Member, new: list[Member]) -> tuple[int, int, int]:
        """By the greatest time so far in the partition, then by place; both inputs' topics are one."""
        times = [m.secs for m in new if m.partition == one.partition and m.offset <= one.offset]
        return max(times), one.partition, one.offset

    def _window(self) -> tuple[list[Member], bool]:
        news: list[Member] = []
        more = False
        for name, rows in self.rows.items():
            ends = {one.partition: max(r.offset for r in rows if r.partition == one.partition) for one in rows}
            left = {p: end - self.taken.get((name, p), -1) for p, end in ends.items()}
            left = {p: number for p, number in left.items() if number}
            share = None if sum(left.values()) <= self.most else max(1, self.most // len(left))
            for p, number in left.items():
                after = self.taken.get((name, p), -1)
                through = after + (number if share is None else min(number, share))
                more = more or through < ends[p]
                news += [one for one in rows if one.partition == p and after < one.offset <= through]
                self.taken[name, p] = through
        return news, more
