"""Every way a value is known to go wrong or nearly so, as data (the facts' table of cases, and more).

A case is a name, the schema it is read with, and the value. The verdict of each stands in
golden_verdicts.json; rewrite that file by running this one, and raise routing.DECODER_VERSION
if a verdict changed on purpose.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

GOLDEN = Path(__file__).with_name("golden_verdicts.json")

_NESTED = pa.struct([("a", pa.int32()), ("s", pa.string()), ("q", pa.struct([("z", pa.float64())]))])
_WITH_REQUIRED = pa.struct(
    [
        pa.field("r", pa.int32(), nullable=False),
        pa.field("d", pa.date32(), nullable=False),
        pa.field("o", pa.string()),
        pa.field("in", pa.struct([pa.field("x", pa.string(), nullable=False)]), nullable=False),
    ]
)

SCHEMAS: dict[str, pa.Schema] = {
    "flat": pa.schema(
        [
            ("s", pa.string()), ("b", pa.int8()), ("h", pa.int16()), ("i", pa.int32()), ("l", pa.int64()),
            ("f", pa.float64()), ("g", pa.float32()), ("ok", pa.bool_()), ("d", pa.decimal128(10, 2)),
            ("big", pa.decimal128(38, 18)), ("pct", pa.decimal128(2, 2)), ("ts", pa.timestamp("us", "UTC")),
            ("n", _NESTED), ("xs", pa.list_(pa.field("element", pa.int32()))),
            ("ns", pa.list_(pa.field("element", _NESTED))),
        ]
    ),
    "cast": pa.schema(
        [
            ("on", pa.date32()), ("bin", pa.binary()), ("ntz", pa.timestamp("us")), ("f", pa.float64()),
            ("n", pa.struct([("on", pa.date32()), ("f", pa.float32())])),
            ("xs", pa.list_(pa.field("element", pa.binary()))),
        ]
    ),
    "map": pa.schema([("s", pa.string()), ("m", pa.map_(pa.string(), pa.int32())),
                      ("ms", pa.map_(pa.string(), pa.struct([("a", pa.int32())])))]),
    "required": pa.schema(
        [
            pa.field("k", pa.string(), nullable=False), pa.field("n", _WITH_REQUIRED),
            pa.field("xs", pa.list_(pa.field("element", pa.int32(), nullable=False))),
            pa.field("m", pa.struct([("o", pa.string())]), nullable=False),
        ]
    ),
}  # fmt: skip

NEIGHBOURS: dict[str, bytes] = {
    "flat": b'{"s":"x","i":1,"f":1.5,"d":1.25,"ts":"2024-01-05T10:11:12Z","n":{"a":1},"xs":[1]}',
    "cast": b'{"on":"2024-01-05","bin":"AAEC","f":0.5}',
    "map": b'{"s":"x","m":{"a":1}}',
    "required": b'{"k":"x","m":{}}',
}

_FLAT: dict[str, bytes] = {
    "truncated": b'{"s":"x"', "extra brace": b'{"s":"x"}}', "trailing garbage": b'{"s":"x"} x', "single quotes": b"{'s':'x'}",
    "comment": b'{"s":"x"/*c*/}', "bom": b'\xef\xbb\xbf{"s":"x"}', "trailing comma": b'{"s":"x",}', "utf-16": '{"s":"x"}'.encode("utf-16"),
    "empty": b"", "blanks only": b" \n\t ", "text null": b"null", "blanks around": b' \n{"s":"x"}\t ', "pretty": b'{\n  "s": "x",\r\n "i": 1\n}',
    "two objects": b'{"s":"x"}{"s":"y"}', "two objects newline": b'{"s":"x"}\n{"s":"y"}', "two objects comma": b'{"s":"x"},{"s":"y"}',
    "closes the wrapper": b'{"s":"x"}}\n{"v":{"s":"y"}', "adds to the wrapper": b'{"s":"x"},"q":1', "top array": b'[{"s":"x"}]',
    "top scalar": b"5", "top string": b'"x"', "top true": b"true", "top nan": b"NaN", "empty object": b"{}", "optional null": b'{"s":null}',
    "dup": b'{"i":1,"i":2}', "dup escaped": b'{"i":1,"\\u0069":2}', "dup null first": b'{"i":null,"i":2}', "dup null last": b'{"i":2,"i":null}',
    "dup nested": b'{"n":{"a":1,"a":1}}', "dup in list": b'{"ns":[{"a":1,"a":1}]}', "dup unknown": b'{"u":1,"u":1}', "dup below unknown": b'{"u":{"x":1,"x":1}}',
    "other case": b'{"I":1}', "both cases": b'{"I":1,"i":2}', "unknown top": b'{"u":1,"i":1}', "unknown nested": b'{"n":{"u":[1,{"v":null}],"a":1}}',
    "unknown in list": b'{"ns":[{"a":1},null,{"a":2,"u":3}]}', "unknown null": b'{"u":null}', "unknown numbers": b'{"u":[1.10,1e400,-0,12345678901234567890123]}',
    "unknown and bad": b'{"u":1,"i":"x"}', "unknown huge int": b'{"u":' + b"9" * 5000 + b"}", "unknown empty key": b'{"":1}', "unknown escapes": b'{"u\\"\\n":"\\ud83d\\ude00\\u0000/\\/"}',
    "utf-8 declared": b'{"s":"\xff"}', "utf-8 unknown": b'{"u":"\xff"}', "utf-8 key": b'{"\xff":1}', "utf-8 overlong": b'{"s":"\xc0\x80"}', "utf-8 surrogate": b'{"s":"\xed\xa0\x80"}',
    "raw nul": b'{"s":"a\x00b"}', "raw tab": b'{"s":"a\tb"}', "raw newline": b'{"s":"a\nb"}', "nul before": b'\x00{"s":"x"}', "nul after": b'{"s":"x"}\x00',
    "escaped nul": b'{"s":"\\u0000"}', "surrogate pair": b'{"s":"\\ud83d\\ude00"}', "lone high": b'{"s":"\\ud800"}', "lone low": b'{"s":"\\udc00"}', "lone in unknown": b'{"u":"\\ud800"}',
    "lone in key": b'{"\\ud800":1}', "literal backslash u": b'{"s":"\\\\ud800"}', "bad escape": b'{"s":"\\x41"}', "bad unicode escape": b'{"s":"\\u12g4"}', "del char": b'{"s":"\x7f"}',
    "deep unknown 100": b'{"u":' + b"[" * 100 + b"]" * 100 + b"}", "deep unknown 199": b'{"u":' + b"[" * 199 + b"]" * 199 + b"}", "deep unknown 200": b'{"u":' + b"[" * 200 + b"]" * 200 + b"}",
    "deep unknown 100k": b'{"u":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "deep open 100k": b"[" * 100_000, "deep objects 100k": b'{"u":' * 100_000, "deep declared": b'{"n":' * 100_000 + b"1" + b"}" * 100_000,
    "brackets in text": b'{"s":"' + b"[" * 1000 + b'"}', "brackets in unknown text": b'{"u":"\\"' + b"[" * 1000 + b'"}', "wide unknown": b'{"u":[' + b"[]," * 5000 + b"[]]}",
    "number for string": b'{"s":12}', "bool for string": b'{"s":true}', "nan for string": b'{"s":NaN}', "object for string": b'{"s":{}}', "array for string": b'{"s":[]}',
    "text for int": b'{"i":"abc"}', "empty text for int": b'{"i":""}', "digits text for int": b'{"i":"123"}', "1.0 for int": b'{"i":1.0}', "1e3 for int": b'{"i":1e3}', "1.5 for int": b'{"i":1.5}',
    "-0 for int": b'{"i":-0}', "007": b'{"i":007}', "+1": b'{"i":+1}', "true for int": b'{"i":true}', "nan for int": b'{"i":NaN}', "hex int": b'{"i":0x1}', "null literal case": b'{"i":Null}',
    "int8 max": b'{"b":127}', "int8 over": b'{"b":128}', "int8 min": b'{"b":-128}', "int8 under": b'{"b":-129}', "int16 max": b'{"h":32767}', "int16 over": b'{"h":32768}', "int16 under": b'{"h":-32769}', "int32 max": b'{"i":2147483647}',
    "int32 over": b'{"i":2147483648}', "int32 min": b'{"i":-2147483648}', "int64 max": b'{"l":9223372036854775807}', "int64 over": b'{"l":9223372036854775808}', "int64 min": b'{"l":-9223372036854775808}', "int64 under": b'{"l":-9223372036854775809}', "uint64 over": b'{"l":18446744073709551616}',
    "int 5000 digits": b'{"l":' + b"9" * 5000 + b"}",
    "int for double": b'{"f":1}', "2^53+1": b'{"f":9007199254740993}', "2^64 for double": b'{"f":18446744073709551616}', "1e-400": b'{"f":1e-400}', "-1e-400": b'{"f":-1e-400}', "0e999999": b'{"f":0e999999}', "-0.0": b'{"f":-0.0}', "long fraction": b'{"f":0.' + b"3" * 400 + b"}",
    "1e400": b'{"f":1e400}', "-1e400": b'{"f":-1e400}', "400 digits": b'{"f":' + b"9" * 400 + b"}", "double max": b'{"f":1.7976931348623157e308}', "double over": b'{"f":1.7976931348623159e308}', "nan": b'{"f":NaN}', "-nan": b'{"f":-NaN}', "infinity": b'{"f":Infinity}', "-infinity": b'{"f":-Infinity}', "inf": b'{"f":Inf}',
    "text for double": b'{"f":"1.5"}', "nan text for double": b'{"f":"NaN"}', "true for double": b'{"f":true}', "1.": b'{"f":1.}', ".5": b'{"f":.5}', "1e": b'{"f":1e}', "nan nested": b'{"n":{"q":{"z":NaN}}}', "nan in list": b'{"ns":[{"q":{"z":Infinity}}]}',
    "float max": b'{"g":3.4028234663852886e38}', "float rounds to max": b'{"g":3.4028235e38}', "float over": b'{"g":3.4028236e38}', "float 1e39": b'{"g":1e39}', "float tie": b'{"g":3.4028235677973366e38}', "float 1e-50": b'{"g":1e-50}', "float nan": b'{"g":NaN}', "float 0.1": b'{"g":0.1}',
    "0 for bool": b'{"ok":0}', "1 for bool": b'{"ok":1}', "text for bool": b'{"ok":"true"}', "yes for bool": b'{"ok":"yes"}', "True": b'{"ok":True}', "bool": b'{"ok":false}',
    "text for struct": b'{"n":"x"}', "array for struct": b'{"n":[]}', "int for struct": b'{"n":1}', "empty struct": b'{"n":{}}', "null struct": b'{"n":null}', "wrong nested": b'{"n":{"a":"x"}}', "wrong in list": b'{"xs":[1,"x"]}', "null in list": b'{"xs":[1,null]}', "scalar for list": b'{"xs":1}',
    "object for list": b'{"xs":{}}', "empty list": b'{"xs":[]}', "list in list": b'{"xs":[[1]]}', "wrong in struct list": b'{"ns":[{"a":1},{"a":true}]}', "struct list": b'{"ns":[{"a":1},null,{}]}',
    "ts z": b'{"ts":"2024-01-05T10:11:12Z"}', "ts +02:00": b'{"ts":"2024-01-05T10:11:12+02:00"}', "ts +0200": b'{"ts":"2024-01-05T10:11:12+0200"}', "ts +02": b'{"ts":"2024-01-05T10:11:12+02"}', "ts blank": b'{"ts":"2024-01-05 10:11:12"}', "ts no zone": b'{"ts":"2024-01-05T10:11:12.5"}',
    "ts 6 digits": b'{"ts":"2024-01-05T10:11:12.123456Z"}', "ts 7 digits": b'{"ts":"2024-01-05T10:11:12.1234567Z"}', "ts 9 digits": b'{"ts":"2024-01-05T10:11:12.999999999+02:00"}', "ts 9 digits no zone": b'{"ts":"2024-01-05T10:11:12.000000000"}', "ts 10 digits": b'{"ts":"2024-01-05T10:11:12.1234567891Z"}', "ts 9 digits bad month": b'{"ts":"2024-13-05T10:11:12.999999999Z"}',
    "ts no digits": b'{"ts":"2024-01-05T10:11:12.Z"}', "ts minutes": b'{"ts":"2024-01-05T10:11"}', "ts hour": b'{"ts":"2024-01-05T10"}', "ts date only": b'{"ts":"2024-01-05"}', "ts before 1970": b'{"ts":"1969-12-31T23:59:59.999999Z"}', "ts before 1970 9 digits": b'{"ts":"1969-12-31T23:59:59.999999999Z"}',
    "ts int": b'{"ts":1704448272}', "ts float": b'{"ts":1.5}', "ts int text": b'{"ts":"1704448272"}', "ts month 13": b'{"ts":"2024-13-05T10:11:12Z"}', "ts feb 30": b'{"ts":"2024-02-30T10:11:12Z"}', "ts leap day": b'{"ts":"2024-02-29T10:11:12Z"}', "ts no leap day": b'{"ts":"2023-02-29T10:11:12Z"}', "ts garbage": b'{"ts":"x"}', "ts empty": b'{"ts":""}',
    "ts zone name": b'{"ts":"2024-01-05T10:11:12[Europe/Paris]"}', "ts :60": b'{"ts":"2024-01-05T10:11:60Z"}', "ts 24:00": b'{"ts":"2024-01-05T24:00:00Z"}', "ts word infinity": b'{"ts":"infinity"}', "ts word epoch": b'{"ts":"epoch"}', "ts word now": b'{"ts":"now"}', "ts blank around": b'{"ts":" 2024-01-05T10:11:12Z"}',
    "ts year 0": b'{"ts":"0000-01-01T00:00:00Z"}', "ts year 10000": b'{"ts":"10000-01-01T00:00:00Z"}', "ts lower case": b'{"ts":"2024-01-05t10:11:12z"}', "ts +15:00": b'{"ts":"2024-01-05T10:11:12+15:00"}', "ts +24:00": b'{"ts":"2024-01-05T10:11:12+24:00"}', "ts escaped": b'{"ts":"2024\\u002d01-05T10:11:12Z"}', "ts arabic digits": '{"ts":"٢٠٢٤-01-05T10:11:12Z"}'.encode(),
    "ts true": b'{"ts":true}', "ts object": b'{"ts":{}}',
    "decimal number": b'{"d":12.34}', "decimal text": b'{"d":"12.34"}', "decimal int": b'{"d":7}', "decimal zeros": b'{"d":1.5000}', "decimal too fine": b'{"d":1.501}', "decimal too large": b'{"d":100000000}', "decimal max": b'{"d":99999999.99}', "decimal exponent": b'{"d":1e3}', "decimal exponent text": b'{"d":"1e3"}', "decimal exponent over": b'{"d":1e8}',
    "decimal exponent bomb": b'{"d":1e999999999}', "decimal exponent bomb text": b'{"d":"1e99999999999999999999"}', "decimal zero bomb": b'{"d":0e999999999}', "decimal tiny": b'{"d":1e-999999999}', "decimal plus text": b'{"d":"+1.5"}', "decimal dot text": b'{"d":"1."}', "decimal dot first": b'{"d":".5"}', "decimal empty": b'{"d":""}', "decimal blank": b'{"d":" 1"}', "decimal word": b'{"d":"NaN"}', "decimal nan": b'{"d":NaN}',
    "decimal true": b'{"d":true}', "decimal list": b'{"d":[]}', "decimal underscore": b'{"d":"1_0"}', "decimal zeros first": b'{"d":"00000000000012.5"}', "decimal -0": b'{"d":-0.00}', "decimal arabic": '{"d":"١"}'.encode(), "decimal 37 digits": b'{"big":1234567890123456789.123456789012345678}', "decimal 37 digits text": b'{"big":"-1234567890123456789.123456789012345678"}',
    "decimal 21 whole digits": b'{"big":123456789012345678901}', "decimal 20 whole digits": b'{"big":12345678901234567890}', "decimal 20 nines": b'{"big":99999999999999999999.999999999999999999}', "decimal pct": b'{"pct":0.25}', "decimal pct 1": b'{"pct":1}', "decimal pct text": b'{"pct":".25"}',
    "decimal many zeros": b'{"d":0.' + b"0" * 60 + b"}", "decimal 5000 digits": b'{"d":' + b"9" * 5000 + b"}", "decimal 5000 zeros": b'{"d":1.' + b"0" * 5000 + b"}",
    "1 MB": b'{"s":"' + b"x" * 1_000_000 + b'"}', "5 MB": b'{"s":"' + b"x" * 5_000_000 + b'"}', "1 MB unknown": b'{"u":"' + b"y" * 1_000_000 + b'"}', "1 MB of quotes": b'{"u":"' + b'\\"' * 500_000,
}  # fmt: skip  # noqa: E501

_CAST: dict[str, bytes] = {
    "date": b'{"on":"2024-02-29"}', "date no leap": b'{"on":"2023-02-29"}', "date from ts": b'{"on":"2024-01-05T00:00:00Z"}', "date short": b'{"on":"2024-1-5"}', "date compact": b'{"on":"20240105"}', "date week": b'{"on":"2024-W01-1"}', "date int": b'{"on":19727}', "date empty": b'{"on":""}', "date year 0": b'{"on":"0000-01-01"}', "date before 1970": b'{"on":"1969-12-31"}',
    "date year 10000": b'{"on":"10000-01-01"}', "date month 0": b'{"on":"2024-00-05"}', "date nested bad": b'{"n":{"on":"x"}}', "date null nested": b'{"n":{"on":null}}', "date arabic": '{"on":"٢٠٢٤-01-05"}'.encode(),
    "base64": b'{"bin":"AAECAw=="}', "base64 empty": b'{"bin":""}', "base64 no padding": b'{"bin":"AAECAw"}', "base64 bad char": b'{"bin":"AA*C"}', "base64 url": b'{"bin":"AA-_"}', "base64 newline": b'{"bin":"AAEC\\n"}', "base64 only padding": b'{"bin":"===="}', "base64 inner padding": b'{"bin":"AA==AAEC"}', "base64 int": b'{"bin":1}',
    "base64 in list": b'{"xs":["AAEC",null,""]}', "base64 bad in list": b'{"xs":["AAEC","A"]}', "base64 1 MB": b'{"bin":"' + b"AAEC" * 250_000 + b'"}', "base64 trailing newline": b'{"bin":"AAE\\n"}',
    "ntz": b'{"ntz":"2024-01-05T10:11:12.5"}', "ntz zone": b'{"ntz":"2024-01-05T10:11:12+02:00"}', "ntz 9 digits": b'{"ntz":"2024-01-05T10:11:12.123456789"}', "ntz bad": b'{"ntz":"x"}', "nan beside null": b'{"f":NaN,"n":null}', "nan nested float": b'{"n":{"f":-Infinity}}',
}  # fmt: skip  # noqa: E501

_MAP: dict[str, bytes] = {
    "map": b'{"m":{"b":1,"a":null,"":3}}', "map empty": b'{"m":{}}', "map null": b'{"m":null}', "map dup": b'{"m":{"a":1,"a":1}}', "map bad value": b'{"m":{"a":"x"}}', "map bad key text": b'{"m":{"\\ud800":1}}', "map list": b'{"m":[]}', "map entries": b'{"m":[{"key":"a","value":1}]}', "map case keys": b'{"m":{"a":1,"A":2}}',
    "map struct": b'{"ms":{"k":{"a":1},"l":null}}', "map struct unknown": b'{"ms":{"k":{"a":1,"u":2},"l":{"a":1}}}', "map struct bad": b'{"ms":{"k":{"a":1.5}}}', "map key escapes": b'{"m":{"\\u0061\\n\\"":1}}', "map dup escaped": b'{"m":{"a":1,"\\u0061":1}}',
}  # fmt: skip  # noqa: E501

_REQUIRED: dict[str, bytes] = {
    "required": b'{"k":"x","m":{"o":"y"}}', "required missing": b'{"m":{}}', "required null": b'{"k":null,"m":{}}', "required struct null": b'{"k":"x","m":null}', "required struct missing": b'{"k":"x"}', "required parent null": b'{"k":"x","m":{},"n":null}',
    "required child": b'{"k":"x","m":{},"n":{"r":1,"d":"2024-01-05","in":{"x":"y"}}}', "required child missing": b'{"k":"x","m":{},"n":{"d":"2024-01-05","in":{"x":"y"}}}', "required child null": b'{"k":"x","m":{},"n":{"r":null,"d":"2024-01-05","in":{"x":"y"}}}', "required grandchild": b'{"k":"x","m":{},"n":{"r":1,"d":"2024-01-05","in":{}}}',
    "required date missing": b'{"k":"x","m":{},"n":{"r":1,"in":{"x":"y"}}}', "required element": b'{"k":"x","m":{},"xs":[1,2]}', "required element null": b'{"k":"x","m":{},"xs":[1,null]}', "required dup": b'{"k":"x","k":"y","m":{}}',
}  # fmt: skip  # noqa: E501

CASES: dict[str, tuple[str, bytes]] = {
    name: (schema, value)
    for schema, group in (("flat", _FLAT), ("cast", _CAST), ("map", _MAP), ("required", _REQUIRED))
    for name, value in group.items()
}


def code_of(decoded: object, row: int = 0) -> str:
    """`good`, or the code of the row's reason."""
    for index, _, reason in decoded.bad:  # type: ignore[attr-defined]
        if index == row:
            return str(reason.partition(":")[0])
    return "good"


def main() -> None:
    """Rewrite the golden file from what the code says now."""
    from test_decode import decoded_alone

    verdicts = {name: code_of(decoded_alone(schema, value)) for name, (schema, value) in CASES.items()}
    GOLDEN.write_text(json.dumps(verdicts, indent=0, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
