"""What columns held before an update is kept where the settings ask for it, as the columns would have had it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from exporter.arrow.own_columns import CDC_TYPE
from exporter.core.value_format import ValueFormat
from tests.support.decoded_rows import columns, decode_all, routing_of, rows_of
from tests.support.envelope_samples import (
    DAY,
    KAFKA_US,
    MYSQL,
    changed,
    dms,
    envelope_schema,
    mongo,
    text,
    with_schema,
)
from tests.unit.formats.envelopes.test_changes import DEBEZIUM, IN_CONNECT, MONGODB, OF_DMS, TYPES
from tests.unit.formats.envelopes.test_typed_changes import ROWS, avro, form_of

NAMES = ("id", "d", "price", "gone")


def before(form: ValueFormat, values: list[Any], declared: str = columns(**TYPES), **asked: Any) -> list[Any]:
    """What each row says of it; a text: why there is no row."""
    raws = [one if isinstance(one, bytes) else text(one) for one in values]
    found = rows_of(decode_all(routing_of(declared, form, **asked), raws, KAFKA_US))
    return [one if isinstance(one, str) else json.loads(one["_cdc"]["before"] or "null") for one in found]


def updates(was: dict[str, Any], now: dict[str, Any], **more: Any) -> dict[str, Any]:
    return changed(MYSQL, "u", before=was, after=now, **more)


def test_an_update_tells_what_the_named_columns_held_if_it_was_another_value() -> None:
    """Of their types; nothing of other columns, of ones that an image lacks, of other changes and without an image."""
    now = {"id": 7, "name": "new", "d": DAY}
    values = [
        updates({"id": 6, "name": "old", "d": DAY - 1}, now), updates({"id": 7, "name": "old", "d": DAY}, now),
        updates({"id": None, "name": "old"}, now), changed(MYSQL, "u", after=now), changed(MYSQL, "c", after=now),
        changed(MYSQL, "d", before=now), updates({"id": 6.0, "price": 1}, now), updates({"id": "x", "d": 1}, now),
    ]  # fmt: skip
    found = before(replace(DEBEZIUM, before=NAMES), values)
    assert found == [{"id": 6, "d": "2026-01-30"}, None, {"id": None}, None, None, None, None, None]


def test_connect_dms_mongo_and_avro_tell_it_too() -> None:
    """Each by its own image of before, and its own types."""
    old, now = {"id": 6, "price": "BNI=", "d": DAY}, {"id": 7, "price": "BNM=", "d": DAY}
    connect = with_schema(updates(old, now), envelope_schema())
    assert before(replace(IN_CONNECT, before=NAMES), [connect]) == [{"id": 6, "price": 12.34}]
    of_dms = {**dms("update", {"id": 7, "name": "new"}), "before-image": {"id": 6}}
    loaded = {**dms("insert", {"id": 7}), "before-image": {"id": 6}}
    assert before(replace(OF_DMS, before=NAMES), [of_dms, loaded]) == [{"id": 6}, None]
    document = mongo("u", {"_id": 1, "id": {"$numberLong": "7"}}, {"_id": 1, "id": {"$numberLong": "6"}})
    assert before(replace(MONGODB, before=NAMES), [document], columns(_id="long", id="long")) == [{"id": 6}]
    names = dict.fromkeys(("name", "doc", "tags", "numbers", "more"))
    now = {**names, "id": 7}
    rows = [updates({**names, "id": 6}, now), updates({**now, "name": "x"}, now),
            changed(MYSQL, "d", before={**names, "id": 1}), updates({**names, "id": 5}, now)]  # fmt: skip
    form = replace(form_of(ROWS, "debezium"), before=("id",))
    found = before(
        form, [avro({"before": None, "after": None, **one}, ROWS) for one in rows], columns(id="long", name="string")
    )
    assert found == [{"id": 6}, None, None, {"id": 5}]


@pytest.mark.parametrize("declared", [columns(("name",), **TYPES), columns(**TYPES)])
def test_an_image_of_before_decides_nothing_of_its_record(declared: str) -> None:
    """Such as one with the key alone, where other columns are NOT NULL. Nor does the setting, by its default."""
    now = {"id": 7, "name": "new"}
    assert before(replace(DEBEZIUM, before=("id",)), [updates({"id": 6}, now)], declared) == [{"id": 6}]
    config = routing_of(declared, DEBEZIUM)
    assert "before" not in config.to_json()
    out = decode_all(config, [text(updates({"id": 6}, now))], KAFKA_US)
    assert out.table.schema.field("_cdc").type == CDC_TYPE
