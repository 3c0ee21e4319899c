"""In which values a subject stands: by paths in what is JSON, as a word in what is none."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from exporter.core.subject import DataSubject

ANN = DataSubject((("customer",), ("lines", "buyer"), ("a", "b", "c")), frozenset({"4711", "Ann", "12.50", "x.y@z.de"}))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"customer": "4711"}', True), ('{"customer": 4711}', True), ('{"customer": 4711.0}', True),
        ('{"customer": "47110"}', False), ('{"customer": " 4711"}', False), ('{"customer": "ann"}', False),
        ('{"customer": 12.5}', True), ('{"customer": "12.5"}', False), ('{"customer": 1250e-2}', True),
        ('{"customer": null}', False), ('{"customer": true}', False), ('{"customer": {"x": "Ann"}}', False),
        ('{"customer": ["Bob", ["Ann"]]}', True), ('{"lines": [{"buyer": 1}, {"buyer": 4711}]}', True),
        ('{"lines": {"buyer": "Ann"}}', True), ('{"a": "{\\"b\\": {\\"c\\": \\"Ann\\"}}"}', True),
        ('{"a": {"b": "[{\\"c\\": 4711}]"}}', True), ('{"a": {"b": "c"}}', False),
        ('{"x": {"customer": "Ann"}}', False),
        ('{"customer": "Ann"', False), ("", False), ("4711", False), ('{"customer": NaN}', False),
        ('{"customer": 1e999999999}', False), ("[" * 5000, False),
    ],
)  # fmt: skip
def test_json(text: str, found: bool) -> None:
    """At a path from the top, through lists and texts of JSON, numbers by their value."""
    assert ANN.is_in_json(text, ANN.paths) is found


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b'{"type": "order", "after": {"customer": "Ann"}}', True), (b'[{"x": [{"lines": [{"buyer": 4711}]}]}]', True),
        (b'{"payload": "{\\"customer\\": 4711}"}', True), (b'{"id": 4711}', False),
        (b'{"customer": 4711', True), (b"4711", True), (b"47110", False), (b"a4711", False), (b"_4711", False),
        (b"name=Ann;", True), (b"Anna", False), (b"mail x.y@z.de, please", True), (b"", False),
        ("Änn Annü".encode(), False), (b"\xff\x08Ann!", False), (b"\xff\x084711", True), (b"\xffx.y@z.dexx", True),
    ],
)  # fmt: skip
def test_dead_letters(raw: bytes, found: bool) -> None:
    """A path begins anywhere; what is no JSON has the word; in what is no text short ones are not looked for."""
    assert ANN.is_in_letter(raw) is found


def test_a_path_is_walked_as_somebody_else_walks_it() -> None:
    """Of random values: found where a reader finds it that has no path of its own, but writes all of them down."""
    rng, seen = random.Random(11), 0
    for _ in range(3_000):
        value = made(rng, 4)
        there = {path for path, leaf in written(value, ()) if leaf in ("s", 7)}
        for path in ({path for path, _ in written(value, ())} | {("a",), ("a", "b"), ("b", "a", "c")}) - {()}:
            subject = DataSubject((path,), frozenset({"s", "7"}))
            assert subject.is_in_json(json.dumps(value), [path]) is (path in there), (value, path)
            seen += path in there
    assert seen > 500


def made(rng: random.Random, depth: int) -> Any:
    """A value of JSON, of few names and few leaves."""
    kind = rng.randrange(4) if depth else 3
    if kind < 2:
        return {rng.choice("abc"): made(rng, depth - 1) for _ in range(rng.randrange(4))}
    if kind == 2:
        return [made(rng, depth - 1) for _ in range(rng.randrange(3))]
    return rng.choice(["s", 7, 8, "t", None, True, "7.0"])


def written(value: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    """Each leaf, with the names that lead to it."""
    if isinstance(value, dict):
        return [one for name, inner in value.items() for one in written(inner, (*path, name))]
    if isinstance(value, list):
        return [one for inner in value for one in written(inner, path)]
    return [(path, value if value is not True else "true")]
