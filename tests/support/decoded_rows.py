"""What decoders make of values, row by row, as tests look at it; and the columns that they are made for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from exporter.arrow.kafka_time import US
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.value_format import ValueFormat
from exporter.formats.decoded import DecodedBatch
from exporter.formats.decoder import Decoder


def rows_of(decoded: DecodedBatch, *unasked: str) -> list[Any]:
    """Per value its row as Python has it, or its reason. unasked: columns that are left out."""
    table = decoded.table.drop_columns(list(unasked)).to_pylist()
    found: dict[int, Any] = {row: reason for row, _, reason in decoded.bad}
    found.update(zip(decoded.good.to_pylist(), table, strict=True))
    return [found[row] for row in range(len(found))]


def there(row: Any) -> Any:
    """A row without what is null; a reason as it is."""
    return {name: one for name, one in row.items() if one is not None} if isinstance(row, dict) else row


def codes(found: Sequence[Any]) -> list[str]:
    """Of each value the code of its reason, empty for a row."""
    return [one.partition(":")[0] if isinstance(one, str) else "" for one in found]


def routing_of(declared: str, form: ValueFormat | None = None, name: str = "public.orders", **more: Any) -> Routing:
    """Of one type with these columns."""
    asked: Any = {"type_from": TypeFrom("topic"), "event_time": EventTime("record"), **more}
    return Routing(types=((name, declared),), value_format=form or ValueFormat(), **asked)


def decode_all(config: Routing, values: Sequence[bytes | None], kafka_us: int, **more: Any) -> DecodedBatch:
    """Values of the type that a routing declares, all of the same Kafka timestamp. more: as of Decoder.of."""
    decoder = Decoder.of(config.types[0][0], config, **more)
    return decoder.decode(pa.array(values, pa.binary()), pa.array([kafka_us] * len(values), US))


def columns(required: Sequence[str] = (), **types: Any) -> str:
    """Spark schema JSON."""
    fields = [{"name": n, "type": t, "nullable": n not in required, "metadata": {}} for n, t in types.items()]
    return json.dumps({"type": "struct", "fields": fields})
