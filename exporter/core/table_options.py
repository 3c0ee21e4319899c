"""How tables are made and filled, as far as the settings say it and no verdict depends on it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.core.columns import JsonText
from exporter.core.record_columns import RecordColumns
from exporter.core.specs import Specs


@dataclass(frozen=True)
class TableOptions:
    """What a lake has beside its tables; the defaults are those of the settings.

    json_text: how columns for any JSON hold their values. rescue_empty: whether `_rescued` also has what is empty
    throughout (protocol 1.6). specs: of the tables that are made; by day without.
    type_widening: whether a table's columns may get the wider types that are declared. record_columns: what tables have
    of the record itself. properties: Delta's own table properties, of the tables that are made. compression: codec of
    all data files, as the setting names it; empty: as stores/parquet.py chooses.
    """

    json_text: JsonText = "as_sent"
    rescue_empty: bool = False
    specs: Specs = field(default_factory=Specs)
    type_widening: bool = False
    record_columns: RecordColumns = field(default_factory=RecordColumns)
    properties: Mapping[str, str] = field(default_factory=dict)
    compression: str = ""
