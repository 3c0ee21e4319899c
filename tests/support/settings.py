"""The smallest settings file that is whole, for tests that ask no broker and no table."""

from __future__ import annotations

TOML = """
brokers = ["127.0.0.1:1"]
topics = ["events"]
group = "exports"
table_root = "/data/tables"
[type_from]
kind = "topic"
[event_time]
kind = "record"
[types.order]
columns = "id BIGINT"
"""
