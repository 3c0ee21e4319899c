"""The table of erased records: where each stood, and nothing of what was in it (ERASED, protocol 4.16)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cached_property

import pyarrow as pa

from exporter.arrow.kafka_time import US
from exporter.arrow.own_columns import PLACES
from exporter.arrow.spark_types import fields_of
from exporter.column.spark_json import text_of
from exporter.column.types import StructType
from exporter.errors import InvariantBroken
from exporter.lake.change import Change, said_beside
from exporter.lake.lake import Lake
from exporter.lake.rows import table_rows
from exporter.lake.settling import Expect, commit_or_moved
from exporter.lake.table import DeltaTable
from offsets import Invariant
from offsets.erased import Erased, erased_app_id, erasures_known
from offsets.partitions import Spec
from offsets.table_log import TableView

_STORED = pa.schema([*PLACES, ("erasure", pa.int64()), ("erased_at", US)])


class Erasures:
    """Of one app. Raises TableUnreadable, StorageSilent among it."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    @cached_property
    def _table(self) -> DeltaTable:
        return self._lake.erased()

    def known_to(self, views: Iterable[TableView]) -> Erased:
        """All erasures, if some tables know of any: else the storage is not asked. Raises InvariantBroken."""
        known = erasures_known(views)
        found = self.read() if known else Erased()
        if found.number < known:
            raise InvariantBroken(
                Invariant.ONCE,
                f"tables know of {known} erasures, and {self._table.uri} has {found.number} of them",
                "put the table of erased records back as it was: what they were of would come back without it",
            )
        return found

    def read(self) -> Erased:
        """All erasures that are recorded; none where there is no table of them."""
        view = self._table.view()
        return Erased() if view is None else Erased.of(self._number(view), self._places(view))

    def add(self, places: pa.Table, now: datetime) -> int:
        """Record one more, in the columns of PLACES; its number. now: UTC. Raises Moved if somebody else was faster."""
        view = self._table.view()
        if view is None:
            schema = text_of(StructType(fields_of(_STORED)))
            made = Change((), {}, said_beside("create"), create=schema, spec=Spec("none"))
            commit_or_moved(self._table, made, Expect(None))
            view = self._table.view()
        app_id, number = erased_app_id(self._lake.app), 1 + (0 if view is None else self._number(view))
        more = [pa.repeat(one, places.num_rows) for one in (pa.scalar(number, pa.int64()), pa.scalar(now, US))]
        stored = pa.table([*places.select(PLACES.names).columns, *more], schema=_STORED)
        rows = self._lake.session.createDataFrame(stored)
        change = Change((app_id,), {app_id: number}, said_beside("erasure", records=places.num_rows), rows=rows)
        commit_or_moved(self._table, change, Expect(view, self._lake.app, ours=True))
        return number

    def _number(self, view: TableView) -> int:
        return view.transactions.get(erased_app_id(self._lake.app), 0)

    def _places(self, view: TableView) -> Iterator[tuple[str, int, int, int]]:
        for rows in table_rows(self._lake, self._table, view, PLACES):
            yield from zip(*(rows.column(name).to_pylist() for name in PLACES.names), strict=True)
