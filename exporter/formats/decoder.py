"""From the values of one event type to the rows of its table, or to reasons: what is common to all formats.

    values ── the format's reader ── Read ── event time within bounds ── years that a table holds ── DecodedBatch

Runs on Spark executors. Must never let a value become null in silence, drop a record, or look at a clock.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import US
from exporter.arrow.own_columns import CDC_COLUMN
from exporter.arrow.rows import all_but, numbered
from exporter.arrow.years import Years
from exporter.core.columns import JsonText
from exporter.core.routing import Routing
from exporter.core.schemas import NO_SCHEMAS, KnownSchemas
from exporter.formats.decoded import DecodedBatch
from exporter.formats.event_times import EventTimes
from exporter.formats.evolving import never_refusing
from exporter.formats.format import Format
from exporter.formats.formats import format_of
from exporter.formats.marks import declared_only, unmarked


class Decoder:
    """Decodes batches of values of one event type, each record by itself (ROUTE).

    schema: the columns, those that nobody declared marked (marks.py); if there are none the whole value is kept in
    `_rescued`. form: instead of the format that the routing names. Raises ConfigError if a declared column is in the
    way of the event type or the event time.
    """

    def __init__(
        self,
        event_type: str,
        schema: pa.Schema,
        routing: Routing,
        form: Format | None = None,
        json_text: JsonText = "as_sent",
    ) -> None:
        form = form or format_of(routing.value_format)
        self.reader = never_refusing(lambda one: form.reader(event_type, one, routing, json_text), schema)
        self._event_times = EventTimes(routing)
        self._years = Years(declared_only(schema))
        self._table_schema = pa.schema(
            [*unmarked(schema), pa.field("_rescued", pa.string()), pa.field("_event_time", US)]
        )

    @classmethod
    def of(
        cls,
        event_type: str,
        routing: Routing,
        columns: str | None = None,
        json_text: JsonText = "as_sent",
        *,
        topic: str = "",
        schemas: KnownSchemas = NO_SCHEMAS,
    ) -> Decoder:
        """The decoder of a type as the configuration declares it, or of one that has a table without being declared.

        columns: Spark schema JSON of the declared columns together with those of the table that evolution has made
        (core/evolved.py); None: there are no others than those declared. topic: that the values are of. schemas: what
        is decided of schema ids.
        """
        wanted = columns or routing.decoded_of(event_type)
        empty = not json.loads(wanted)["fields"]
        form = format_of(routing.format_of(topic), schemas)
        schema = pa.schema([]) if empty else form.schema(wanted, event_type)
        return cls(event_type, schema, routing, form, json_text)

    def decode(self, values: pa.BinaryArray, timestamps: pa.TimestampArray) -> DecodedBatch:
        """Decode values with their Kafka timestamps (timestamp[us], any zone); under 2 GB per batch."""
        read = self.reader.read(values)
        rows, ignored, kafka = read.rows, read.ignored, timestamps.cast(US)
        if len(rows) < len(kafka):
            kafka = kafka.take(rows)
        times, inside, late = self._event_times.check(kafka if read.time is None else read.time, kafka)
        columns = [*read.columns, read.rescued, times]
        if read.cdc is None:
            table = pa.table(columns, schema=self._table_schema)
        else:
            enveloped = self._table_schema.append(pa.field(CDC_COLUMN, read.cdc.type))
            table = pa.table([*columns, read.cdc], schema=enveloped)
        bad = [(row, "decode", reason) for row, reason in read.refused.items()]
        if late:
            bad += [(rows[at].as_py(), "event_time", reason) for at, reason in late.items()]
            table, rows, ignored = table.filter(inside), rows.filter(inside), ignored.filter(inside)
        if beyond := self._years.beyond(table):
            bad += [(rows[at].as_py(), "decode", reason) for at, reason in beyond.items()]
            within = all_but(numbered(len(rows)), sorted(beyond))
            table, rows, ignored = table.take(within), rows.take(within), ignored.take(within)
        return DecodedBatch(
            table,
            rows,
            sorted(bad),
            ignored=pc.sum(ignored).as_py() or 0,
            truncated=read.truncated,
        )
