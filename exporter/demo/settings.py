"""The settings file of the demo, which a user can take over."""

from __future__ import annotations

import json
from pathlib import Path

from exporter.demo import kitchen, shop

TOPIC = "shop_events"
WAL_TABLE = "demo-wal"


def settings_toml(
    bootstrap: str,
    lake: Path,
    records: int,
    endpoint: str = "",
    described: bool = True,
    registry: str = "",
    derives: bool = False,
) -> str:
    """The settings file. Files are rolled so early that each table gets several commits. endpoint: DynamoDB's.

    described: whether it says what the events look like; else `exporter infer` completes it.
    registry: URL of a schema registry, which knows the types and columns of events that are Avro. derives: whether the
    kitchen's topic is exported too, and tables are made of the tables.
    """
    log = [f"wal_table = {_quoted(WAL_TABLE)}", f"wal_endpoint = {_quoted(endpoint)}"] if endpoint else []
    lines = [
        "# Written by `exporter demo`. What is small here for the demo's sake has a better default.",
        f"brokers = [{_quoted(bootstrap)}]",
        f"topics = [{', '.join(map(_quoted, [TOPIC, *([kitchen.TOPIC] if derives else [])]))}]",
        'group = "demo"',
        f"table_root = {_quoted(str(lake))}",
        'first_position = "earliest"',
        f"record_bytes_max = {shop.RECORD_BYTES_MAX}",
        *log,
        "",
        "# for the demo: many small commits, and a group that soon forgets a killed member",
        f"round_records_max = {max(1000, records // 5)}",
        f"roll_records_max = {max(100, records // 80)}",
        "roll_age_max_secs = 5",
        "heartbeat_secs = 5",
        "session_timeout_secs = 6",
    ]
    lines += _registered(registry) if registry else _described() if described else ()
    return "\n".join([*lines, *(kitchen.SETTINGS.splitlines() if derives else ())]) + "\n"


def _registered(url: str) -> list[str]:
    """The tables of the settings where a registry says what an event is: no type and no column."""
    return [
        'new_type = "table"',
        "",
        "[value_format]",
        'kind = "avro"',
        "",
        "[schema_registry]",
        f"urls = [{_quoted(url)}]",
        "",
        "[type_from]",
        'kind = "schema"',
        'name = "short"',
        "",
        "[event_time]",
        'kind = "field"',
        'path = "ts"',
    ]


def _described() -> list[str]:
    """The tables of the settings that say what an event is."""
    lines = [
        "",
        "[type_from]",
        'kind = "field"',
        'name = "type"',
        "",
        "[event_time]",
        'kind = "field"',
        'path = "ts"',
        'unit = "iso"',
    ]
    for name, ddl in shop.schemas().items():
        lines += ["", f"[types.{name}]", f"columns = {_quoted(ddl)}"]
    return lines


def _quoted(text: str) -> str:
    """A TOML basic string; JSON's escapes are a part of TOML's."""
    return json.dumps(text, ensure_ascii=False)
