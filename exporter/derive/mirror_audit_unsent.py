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
    numbers = f"from_json({sent}, 'ARRAY<DOUBLE>')"
    scaled = f"transform({numbers}, one -> try_divide(one, get({numbers}, 0)) * {ord(SAID[0])})"
    spelt = f"array_join(transform({scaled}, one -> char(try_cast(round(one) AS INT))), '')"
    coded = f"transform(from_json({sent}, 'ARRAY<STRING>'), one -> CAST(try_to_binary(one, 'base64') AS STRING))"
    structs = f"from_json({sent}, 'ARRAY<STRUCT<scale: INT, value: STRING>>')"
    pairs = f"transform({structs}, one -> CAST(try_to_binary(IF(one.scale = 0, one.value, ''), 'base64') AS STRING))"
    wkb = f"upper(hex(try_to_binary(get_json_object({sent}, '$.wkb'), 'base64')))"
    found = (
        f"translate({sent}, '[]{{}}\"', '') IN ({_listed(TEXTS)})",
        f"(get({numbers}, 0) > 0 AND {spelt} = '{SAID}' AND forall({scaled}, one -> abs(one - round(one)) < 1e-9))",
        f"(array_join({coded}, '') = '{SAID}' AND size({coded}) = {len(SAID)})",
        f"(array_join({pairs}, '') = '{SAID}' AND size({pairs}) = {len(SAID)})",
        f"regexp_like({sent}, '^.(true,){{{len(SAID) - 1}}}true.$')",
        f"{wkb} IN ({_listed(GEOMETRIES)})",
        f"try_cast(get_json_object({sent}, '$.x') AS DOUBLE) + 99999999 = 0 "
        f"AND try_cast(get_json_object({sent}, '$.y') AS DOUBLE) + 99999999 = 0",
    )
    return "(" + " OR ".join(f"coalesce({one}, false)" for one in found) + ")"


def _listed(texts: tuple[str, ...]) -> str:
    return ", ".join(f"'{text}'" for text in texts)
