"""What a mirror's audit takes for a value that was not sent: a list of its own, in SQL (protocol 9.5). Constants alone.

a text, alone or in an array or a map    the text, its bytes in base64 or in hexadecimal digits, the UUID of them
numbers, bytes of decimals               their characters, one after the other
28 times true; points                    those that Debezium's manual and source have
"""

from __future__ import annotations

SAID = "__debezium_unavailable_value"
TEXTS = (
    SAID,
    f"{SAID}:{SAID}",
    "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
    "5f5f646562657a69756d5f756e617661696c61626c655f76616c7565",
    "b68a35a7-17ad-35b3-af2a-ae46edb4545a",
)
GEOMETRIES = (
    "0101000020E6100000000000FC83D797C1000000FC83D797C1",
    "0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640",
)


def never_sent(sent: str) -> str:
    """SQL: whether a member of `_rescued`, an SQL text of a member as text, is such a value; never null."""
    letter = "round(one / numbers[0] * 95)"
    numbers = (
        f"size(numbers) = {len(SAID)} AND numbers[0] > 0 "
        f"AND forall(numbers, one -> abs(one / numbers[0] * 95 - {letter}) < 1e-9 AND {letter} BETWEEN 1 AND 127) "
        f"AND array_join(transform(numbers, one -> char(CAST({letter} AS INT))), '') = '{SAID}'"
    )
    coded = "CAST(try_to_binary(one, 'base64') AS STRING)"
    pair = "CAST(try_to_binary(IF(one.scale = 0, one.value, ''), 'base64') AS STRING)"
    spelt = f"size(parts) = {len(SAID)} AND array_join(parts, '') = '{SAID}'"
    wkb = "upper(hex(try_to_binary(get_json_object(sent, '$.wkb'), 'base64')))"
    far = [f"try_cast(get_json_object(sent, '$.{name}') AS DOUBLE) + 99999999 = 0" for name in "xy"]
    found = (
        f"translate(sent, '[]{{}}\"', '') IN ({_listed(TEXTS)})",
        f"exists(array(from_json(sent, 'ARRAY<DOUBLE>')), numbers -> coalesce({numbers}, false))",
        f"exists(array(transform(from_json(sent, 'ARRAY<STRING>'), one -> {coded})), parts -> {spelt})",
        "exists(array(transform(from_json(sent, 'ARRAY<STRUCT<scale: INT, value: STRING>>'), "
        f"one -> {pair})), parts -> {spelt})",
        f"regexp_like(sent, '^.(true,){{{len(SAID) - 1}}}true.$')",
        f"{wkb} IN ({_listed(GEOMETRIES)})",
        " AND ".join(far),
    )
    each = " OR ".join(f"coalesce({one}, false)" for one in found)
    return f"exists(array({sent}), sent -> sent IS NOT NULL AND ({each}))"


def _listed(texts: tuple[str, ...]) -> str:
    return ", ".join(f"'{text}'" for text in texts)
