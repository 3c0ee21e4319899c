"""As much of PromQL as the alert rules and the dashboard use, evaluated over scrapes; anything else is a SyntaxError.

    expr    = sum [("==" | ">" | "<") number]          number: filters, as in Prometheus
    sum     = term {"-" term}      term = factor {"/" factor}
    factor  = number | "time()" | func "(" expr ")" | agg ["by" "(" labels ")"] "(" expr ")" | selector | "(" expr ")"

A selector with a range gives every sample of the last so many seconds. Counters only grow in a test, but for a restart,
which rate, increase and resets take as Prometheus does, without its extrapolation to the ends of the range.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Labels = tuple[tuple[str, str], ...]
Vector = dict[Labels, float]
Scrape = dict[str, Vector]
"""Sample name -> labels -> number."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[a-zA-Z_:][\w:]*)|(?P<text>\"[^\"]*\")|(?P<range>\[\d+[smh]\])"
    r"|(?P<sign>=~|!~|==|!=|[-(){}=,<>/]))"
)
_UNIT = {"s": 1, "m": 60, "h": 3600}


@dataclass
class History:
    """Scrapes in order of time (seconds)."""

    times: list[float] = field(default_factory=list)
    scrapes: list[Scrape] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    """The names that were asked for."""

    def add(self, time: float, scrape: Scrape) -> None:
        self.times.append(time)
        self.scrapes.append(scrape)

    def value(self, expr: str, now: float) -> Vector:
        """The vector that the expression gives; a scalar as one series without labels."""
        parser = _Parser(self, expr, now)
        found = parser.expr()
        if parser.tokens:
            raise SyntaxError(f"{expr!r}: {parser.tokens[0][1]!r} is not understood")
        return found if isinstance(found, dict) else {(): found}

    def samples(self, name: str, since: float, now: float) -> dict[Labels, list[float]]:
        """Labels -> the numbers scraped after `since` and up to now, in order."""
        self.asked.add(name)
        found: dict[Labels, list[float]] = defaultdict(list)
        for time, scrape in zip(self.times, self.scrapes, strict=True):
            if since < time <= now:
                for labels, number in scrape.get(name, {}).items():
                    found[labels].append(number)
        return found

    def newest(self, name: str, now: float) -> Vector:
        self.asked.add(name)
        past = [at for at, time in enumerate(self.times) if time <= now]
        return dict(self.scrapes[past[-1]].get(name, {})) if past else {}


def _increase(samples: Sequence[float]) -> float:
    return sum(after - before if after >= before else after for before, after in pairwise(samples))


def _steps(kind: Callable[[float, float], bool]) -> Callable[[Sequence[float], float], float]:
    return lambda samples, secs: sum(kind(a, b) for a, b in pairwise(samples))


_OVER: dict[str, Callable[[Sequence[float], float], float]] = {
    "rate": lambda samples, secs: _increase(samples) / secs,
    "increase": lambda samples, secs: _increase(samples),
    "resets": _steps(lambda before, after: after < before),
    "changes": _steps(lambda before, after: after != before),
    "min_over_time": lambda samples, secs: min(samples),
    "max_over_time": lambda samples, secs: max(samples),
}
_AGGREGATE: dict[str, Callable[[Sequence[float]], float]] = {"sum": sum, "min": min, "max": max}


class _Parser:
    def __init__(self, history: History, text: str, now: float) -> None:
        self.history, self.now = history, now
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise SyntaxError(f"{text!r}: not understood from {text[at:]!r}")
            self.tokens.append((str(match.lastgroup), match[match.lastgroup]))  # type: ignore[index]
            at = match.end()

    def take(self, *wanted: str) -> str:
        """The next token, if it is one of these; else nothing."""
        return self.tokens.pop(0)[1] if self.tokens and self.tokens[0][1] in wanted else ""

    def need(self, wanted: str) -> None:
        if not self.take(wanted):
            raise SyntaxError(f"{wanted!r} expected before {self.tokens[:1]}")

    def expr(self) -> Vector | float:
        found = self.sum()
        if not (sign := self.take("==", ">", "<")):
            return found
        limit = self.factor()
        if not isinstance(found, dict) or isinstance(limit, dict):
            raise SyntaxError("only vectors are compared, with numbers")
        holds = {"==": lambda n: n == limit, ">": lambda n: n > limit, "<": lambda n: n < limit}[sign]
        return {labels: number for labels, number in found.items() if holds(number)}

    def sum(self) -> Vector | float:
        found = self.term()
        while self.take("-"):
            found = _both(found, self.term(), lambda a, b: a - b)
        return found

    def term(self) -> Vector | float:
        found = self.factor()
        while self.take("/"):
            found = _both(found, self.factor(), lambda a, b: a / b if b else float("nan"))
        return found

    def factor(self) -> Vector | float:
        if self.take("("):
            found = self.expr()
            self.need(")")
            return found
        kind, text = self.tokens.pop(0)
        if kind == "number":
            return float(text)
        if kind != "name":
            raise SyntaxError(f"{text!r} is not understood")
        if text == "time":
            self.need("(")
            self.need(")")
            return self.now
        if text in _AGGREGATE:
            return self.aggregate(_AGGREGATE[text])
        if text in _OVER:
            self.need("(")
            name, matches = self.selector(self.tokens.pop(0)[1])
            secs = self.range()
            self.need(")")
            samples = self.history.samples(name, self.now - secs, self.now)
            return {_plain(labels): _OVER[text](found, secs) for labels, found in samples.items()
                    if matches(labels) and len(found) > 1}  # fmt: skip
        name, matches = self.selector(text)
        return {labels: n for labels, n in self.history.newest(name, self.now).items() if matches(labels)}

    def aggregate(self, how: Callable[[Sequence[float]], float]) -> Vector:
        by: set[str] = set()
        if self.take("by"):
            by = self.names()
        self.need("(")
        found = self.expr()
        self.need(")")
        if not isinstance(found, dict):
            raise SyntaxError("only vectors are aggregated")
        groups: dict[Labels, list[float]] = defaultdict(list)
        for labels, number in found.items():
            groups[tuple(one for one in labels if one[0] in by)].append(number)
        return {labels: how(numbers) for labels, numbers in groups.items()}

    def names(self) -> set[str]:
        self.need("(")
        found = set()
        while not self.take(")"):
            found.add(self.tokens.pop(0)[1])
            self.take(",")
        return found

    def selector(self, name: str) -> tuple[str, Callable[[Labels], bool]]:
        wanted: list[tuple[str, str, str]] = []
        if self.take("{"):
            while not self.take("}"):
                label, sign, text = (self.tokens.pop(0)[1] for _ in range(3))
                wanted.append((label, sign, text.strip('"')))
                self.take(",")

        def matches(labels: Labels) -> bool:
            given = dict(labels)
            for label, sign, text in wanted:
                found = given.get(label, "")
                equal = bool(re.fullmatch(text, found)) if "~" in sign else found == text
                if equal == sign.startswith("!"):
                    return False
            return True

        return name, matches

    def range(self) -> float:
        kind, text = self.tokens.pop(0)
        if kind != "range":
            raise SyntaxError(f"a range is expected, not {text!r}")
        return float(text[1:-2]) * _UNIT[text[-2]]


def _plain(labels: Labels) -> Labels:
    return tuple(one for one in labels if one[0] != "__name__")


def _both(left: Vector | float, right: Vector | float, how: Callable[[float, float], float]) -> Vector | float:
    """Series with the same labels meet; a number meets every series."""
    if isinstance(left, dict) and isinstance(right, dict):
        return {labels: how(number, right[labels]) for labels, number in left.items() if labels in right}
    if isinstance(left, dict):
        return {labels: how(number, right) for labels, number in left.items()}  # type: ignore[arg-type]
    if isinstance(right, dict):
        return {labels: how(left, number) for labels, number in right.items()}
    return how(left, right)
