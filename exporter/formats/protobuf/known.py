"""Files that registries take for known, so that no schema lists them as references: by their published shapes.

    confluent/meta.proto            what Confluent's clients and Connect say beside a field, as options
    confluent/type/*.proto          decimals and variants
    google/type/*.proto             dates, times of a day, money and their like

Names, numbers and types are all that a reader needs of them; comments and options of generators are left out. A file
of the same name among the references of a schema counts instead.
"""

from __future__ import annotations

from collections.abc import Mapping

_HEAD = 'syntax = "proto3";\n'


def _file(package: str, body: str, *imports: str) -> str:
    needed = "".join(f'import "{name}";\n' for name in imports)
    return f"{_HEAD}package {package};\n{needed}{body}\n"


def _enum(name: str, *values: str) -> str:
    return f"enum {name} {{ " + " ".join(f"{one} = {number};" for number, one in enumerate(values)) + " }"


_META = """
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
_DATE_TIME = """
message DateTime {
  int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5; int32 seconds = 6;
  int32 nanos = 7;
  oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; }
}
message TimeZone { string id = 1; string version = 2; }
"""
_PHONE_NUMBER = """
message PhoneNumber {
  message ShortCode { string region_code = 1; string number = 2; }
  oneof kind { string e164_number = 1; ShortCode short_code = 2; }
  string extension = 3;
}
"""
_POSTAL_ADDRESS = """
message PostalAddress {
  int32 revision = 1; string region_code = 2; string language_code = 3; string postal_code = 4;
  string sorting_code = 5; string administrative_area = 6; string locality = 7; string sublocality = 8;
  repeated string address_lines = 9; repeated string recipients = 10; string organization = 11;
}
"""
_MONTHS = (
    "JANUARY", "FEBRUARY", "MARCH", "APRIL", "MAY", "JUNE", "JULY", "AUGUST", "SEPTEMBER", "OCTOBER", "NOVEMBER",
    "DECEMBER",
)  # fmt: skip
_DAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
_GOOGLE_TYPES: Mapping[str, tuple[str, ...]] = {
    "calendar_period": (
        _enum("CalendarPeriod", "CALENDAR_PERIOD_UNSPECIFIED", "DAY", "WEEK", "FORTNIGHT", "MONTH", "QUARTER", "HALF",
              "YEAR"),
    ),
    "color": (
        "message Color { float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }",
        "google/protobuf/wrappers.proto",
    ),
    "date": ("message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",),
    "datetime": (_DATE_TIME, "google/protobuf/duration.proto"),
    "dayofweek": (_enum("DayOfWeek", "DAY_OF_WEEK_UNSPECIFIED", *_DAYS),),
    "decimal": ("message Decimal { string value = 1; }",),
    "expr": ("message Expr { string expression = 1; string title = 2; string description = 3; string location = 4; }",),
    "fraction": ("message Fraction { int64 numerator = 1; int64 denominator = 2; }",),
    "interval": (
        "message Interval { google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }",
        "google/protobuf/timestamp.proto",
    ),
    "latlng": ("message LatLng { double latitude = 1; double longitude = 2; }",),
    "localized_text": ("message LocalizedText { string text = 1; string language_code = 2; }",),
    "money": ("message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }",),
    "month": (_enum("Month", "MONTH_UNSPECIFIED", *_MONTHS),),
    "phone_number": (_PHONE_NUMBER,),
    "postal_address": (_POSTAL_ADDRESS,),
    "quaternion": ("message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }",),
    "timeofday": ("message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",),
}  # fmt: skip
"""Name in google/type -> what the file declares, and what it imports."""

KNOWN: Mapping[str, str] = {
    "confluent/meta.proto": _file("confluent", _META, "google/protobuf/descriptor.proto"),
    "confluent/type/decimal.proto": _file(
        "confluent.type", "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"
    ),
    "confluent/types/decimal.proto": f'{_HEAD}import public "confluent/type/decimal.proto";\n',
    "confluent/type/variant.proto": _file("confluent.type", "message Variant { bytes metadata = 1; bytes value = 2; }"),
    **{f"google/type/{name}.proto": _file("google.type", *parts) for name, parts in _GOOGLE_TYPES.items()},
}
"""Name, as imports call it -> text."""
