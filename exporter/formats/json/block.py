"""A block of values before it is judged, and after. Runs on Spark executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa

from exporter.arrow.rows import all_but, numbered, patched
from exporter.formats.json.judge import RecordVerdict
from exporter.formats.json.layout import CutBlock
from exporter.formats.json.reading import ShapeReaders, TakenValues
from exporter.formats.json.ways import Way


class Block(NamedTuple):
    """Values that are read at once. texts: what is read of each. cut: what is not. readers: of such texts."""

    sent: pa.BinaryArray
    texts: pa.BinaryArray
    cut: CutBlock | None
    readers: ShapeReaders

    @property
    def notes(self) -> CutBlock | None:
        """What was cut out, once the texts are read."""
        return None if self.cut is None else self.cut._replace(texts=pa.nulls(len(self.sent), pa.binary()))

    def first(self, size: int) -> Block:
        """A block of its first values."""
        cut = None if self.cut is None else self.cut.part(size)
        return Block(self.sent.slice(0, size), self.texts.slice(0, size), cut, self.readers)


@dataclass
class JudgedBlock:
    """The verdict on so many rows: the reader took all but those that `verdicts` refuses.

    verdicts: of rows that are not read as sent. cut: what was cut out of the rows that have no verdict. way: None
    for several blocks.
    """

    size: int
    taken: TakenValues
    verdicts: dict[int, RecordVerdict]
    cut: CutBlock | None
    way: Way | None


def texts_of(values: pa.BinaryArray, verdicts: Mapping[int, RecordVerdict]) -> tuple[Sequence[int], pa.BinaryArray]:
    """Rows not refused, and the text to read for each: its verdict's, or its own if there is none."""
    refused = sorted(row for row, verdict in verdicts.items() if verdict.text is None)
    others = {row: verdict.text for row, verdict in verdicts.items() if verdict.text is not None}
    texts = patched(values, others)
    if not refused:
        return range(len(values)), texts
    rows = all_but(numbered(len(values)), refused)
    return rows.to_pylist(), texts.take(rows)


def joined(blocks: Sequence[JudgedBlock]) -> JudgedBlock:
    """Blocks that follow each other as one. Its columns are not copied together: that is done once a file is made."""
    if len(blocks) == 1:
        return blocks[0]
    columns = [pa.chunked_array(parts) for parts in zip(*(block.taken.columns for block in blocks), strict=True)]
    times = [block.taken.time for block in blocks if block.taken.time is not None]
    taken = TakenValues(columns, pa.concat_arrays(times) if times else None, sum(block.taken.cut for block in blocks))
    starts = list(accumulate((block.size for block in blocks), initial=0))
    verdicts = {
        start + row: verdict
        for start, block in zip(starts, blocks, strict=False)
        for row, verdict in block.verdicts.items()
    }
    cut = None
    if any(block.cut is not None for block in blocks):
        cuts = [CutBlock.none(block.size) if block.cut is None else block.cut for block in blocks]
        cut = CutBlock(*map(pa.concat_arrays, zip(*cuts, strict=True)))
    return JudgedBlock(starts[-1], taken, verdicts, cut, None)
