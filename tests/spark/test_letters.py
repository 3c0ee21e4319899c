"""Which letters are one for Java, asked of the JVM that Spark runs on; tests/golden/letters.txt says what it said."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from exporter.core.columns import folded

pytestmark = [pytest.mark.spark, pytest.mark.long]

GOLDEN = Path(__file__).parents[1] / "golden" / "letters.txt"


def test_names_fold_as_java_compares_them(spark: Any) -> None:
    """By `equalsIgnoreCase` or by `toLowerCase` of the root locale, whichever: all of Unicode is tried.

    A newer JVM knows more letters than the golden file; those that the file has are one there as well.
    """
    letters = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code <= 0xDFFF]
    texts, root = spark._jvm.org.apache.commons.lang3.StringUtils, spark._jvm.java.util.Locale.ROOT
    whole = "\0".join(letters)
    lower, upper = (cased(whole, root).split("\0") for cased in (texts.lowerCase, texts.upperCase))
    of_java = spark._jvm.java.lang.Character
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    for letter, low, up in zip(letters, lower, upper, strict=True):
        if low != letter or up != letter:
            groups["compared", chr(of_java.toLowerCase(of_java.toUpperCase(ord(letter))))].add(letter)
            groups["lower", low].add(letter)
            groups["lower", folded(low)].add(letter)
    assert sum(map(len, groups.values())) > 5_000
    assert [found for found in groups.values() if len({folded(one) for one in found}) > 1] == []
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        first, *others = (chr(of_java.toLowerCase(of_java.toUpperCase(ord(letter)))) for letter in line)
        assert all(one == first for one in others), line
