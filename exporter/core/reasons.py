"""The codes that the reasons of dead letters begin with, before their first colon. A plug-in's may be others."""

from __future__ import annotations

CODES = (
    "ambiguous_field", "bad_boolean", "bad_branch", "bad_decimal", "bad_enum", "bad_envelope", "bad_length",
    "bad_schema", "bad_tag", "bad_time", "bad_type_name", "bad_varint", "bad_zlib", "cdc_control", "cdc_message",
    "cdc_truncate", "duplicate_field", "duplicate_key", "event_time_out_of_bounds", "inexact",
    "kafka_timestamp_out_of_range", "missing_event_time", "missing_field", "no_envelope", "no_image", "no_type",
    "not_framed", "not_json", "not_object", "not_pairs", "not_utf8", "out_of_range", "partial_update", "too_big",
    "too_deep", "too_long", "too_many_values", "trailing_bytes", "transform_failed", "truncated", "type_mismatch",
    "unknown_enum", "unknown_field", "unknown_op", "unknown_schema_id", "unknown_symbol", "unknown_type",
    "unknown_unit", "unresolvable_branch", "unresolvable_schema", "wrong_wire_type",
)  # fmt: skip
