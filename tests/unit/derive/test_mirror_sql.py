"""The MERGE of a mirror, and what makes the newest row of a key, as texts."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.sql.types import ArrayType, DateType, LongType, MapType, StringType, StructField, StructType

from exporter.derive.mirror_rows import MirrorShape
from exporter.derive.mirror_sql import bounds_sql, merge_sql
from exporter.errors import ConfigError
from exporter.settings.derive_mirror import MirrorTable

TEXT = StringType()
SOURCE = (
    StructType()
    .add("_kafka", StructType().add("offset", LongType()))
    .add("name", TEXT)
    .add("meta", StructType().add("id", LongType()))
    .add("changed", ArrayType(TEXT))
    .add("tags", MapType(TEXT, TEXT))
    .add("day", DateType())
)


def mirror(**more: Any) -> MirrorTable:
    return MirrorTable(kind="mirror", source="customer", **{"keys": ("meta.id",), **more})


def shape(**more: Any) -> MirrorShape:
    return MirrorShape.of("job", mirror(**more), SOURCE, ("day",))


def test_a_plain_mirror_replaces_rows_that_are_older_and_nothing_else() -> None:
    """Keys alone are compared: neither what a table is cut by, nor what a key changes. Columns that the source has are
    written, whatever others the mirror has."""
    names = ["`meta`", "`_kafka`", "`name`", "`changed`", "`tags`", "_order", "_deleted"]
    assert merge_sql(shape(), "delta.`/t`").splitlines() == [
        "MERGE INTO delta.`/t` AS t USING changes AS s",
        "ON t.`meta`.`id` = s.`meta`.`id`",
        f"WHEN MATCHED AND (s._order > t._order) THEN UPDATE SET {', '.join(f't.{one} = s.{one}' for one in names)}",
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{one}' for one in names)})",
    ]


def test_keys_come_first_and_columns_of_partitions_are_left_out() -> None:
    """So that files have statistics of the keys."""
    assert shape().columns == ("meta", "_kafka", "name", "changed", "tags")


def test_only_patches_and_envelopes_give_columns_orders_of_their_own() -> None:
    """Keys, the order, the op and what tells of the record are always those of the newest row."""
    assert shape().own_writers == ()
    patched = {"op": "name", "patches": ("P",)}
    assert shape(**patched).own_writers == ("changed", "tags")
    assert shape(**patched, fields="changed").own_writers == ("tags",)


@pytest.mark.parametrize(
    ("least", "most", "told"),
    [
        (1, 9, ("1", "9")),
        (-(2**63), 2**63 - 1, ("-9223372036854775808", "9223372036854775807")),
        ("a-1", "b 2", ("'a-1'", "'b 2'")),
        ("it's ${env:HOME}\0", "z\\",
         ("CAST(X'6974277320247B656E763A484F4D457D00' AS STRING)", "CAST(X'7A5C' AS STRING)")),
        (date(2026, 1, 31), date(2026, 2, 1), ("DATE '2026-01-31'", "DATE '2026-02-01'")),
        (datetime(2026, 1, 31), datetime(2026, 1, 31), None),
        (True, True, None),
        (None, None, None),
        ("a", "z" * 1_000_000, None),
    ],
)  # fmt: skip
def test_files_are_skipped_by_the_bounds_of_a_key(least: Any, most: Any, told: tuple[str, str] | None) -> None:
    """Of integers, texts and dates; in a text nothing can mean anything. Others are looked for everywhere."""
    expected = f"t.`a`.`b` >= {told[0]} AND t.`a`.`b` <= {told[1]}" if told else ""
    assert bounds_sql("a.b", least, most) == expected


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"keys": ("nothing",)}, "has no column nothing"),
        ({"keys": ("meta.nothing",)}, r"has no column meta\.nothing"),
        ({"order": ("tags",)}, "order: column tags is map<string,string>"),
        ({"op": "_cdc"}, r"has no column _cdc\.op"),
        ({"op": "name", "patches": ("P",), "fields": "name"}, "fields: column name is string"),
    ],
)
def test_settings_that_the_source_does_not_fit_are_refused(more: dict[str, Any], message: str) -> None:
    """With what it has."""
    with pytest.raises(ConfigError, match=message):
        shape(**more)


def test_a_source_may_not_have_the_columns_of_a_mirror() -> None:
    """Also by another case."""
    with pytest.raises(ConfigError, match="column _deleted"):
        MirrorShape.of("job", mirror(), StructType([*SOURCE.fields, StructField("_Deleted", TEXT)]), ())


@pytest.mark.parametrize(
    "more",
    [
        {"keys": ()}, {"keys": ("a", "a")}, {"keys": ("a`b",)}, {"patches": ("P",)}, {"fields": "changed"},
        {"op": "x", "upserts": ("D",)}, {"deleted_days": 0},
    ],
)  # fmt: skip
def test_settings_that_contradict_each_other_are_refused(more: dict[str, Any]) -> None:
    """Before anything is opened."""
    with pytest.raises(ValidationError):
        mirror(**more)
