"""The ways through a block that look at each of its records: CLASSIFIED and what is below. On Spark executors.

ways.py draws them. The classifier tells the doubtful records from the others, the judge says what they are, the fast
reader takes what is good. Where it refuses what they passed, what it refuses is found and judged. Must always end with
a verdict on each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from exporter.formats.json.block import Block, JudgedBlock, texts_of
from exporter.formats.json.judge import PASSED_IN_VAIN, Judge, RecordVerdict
from exporter.formats.json.reading import FastReader, ShapeReaders, TakenValues
from exporter.formats.json.text import PARSE_ERRORS
from exporter.formats.json.ways import Way

Attempt = tuple[TakenValues | None, Sequence[int], pa.BinaryArray]
"""What the reader made of some texts, or None if one of them is in doubt; the rows that they are of; the texts."""


class Opinions:
    """The verdicts on the records of one block, as they come in. A guess holds until its record is judged.

    guesses: whether the judge may be asked for one. settled: verdicts that stand.
    """

    def __init__(self, block: Block, judge: Judge, settled: Mapping[int, RecordVerdict], guesses: bool) -> None:
        self._raws: list[bytes | None] = block.sent.to_pylist()
        self._block = block
        self._judge = judge
        self._guesses = guesses
        self._guessed: set[int] = set()
        self.verdicts = dict(settled)

    def judge(self, rows: Iterable[int]) -> None:
        """Have the judge see these, unless it has; a guess is no verdict."""
        for row in rows:
            if row not in self.verdicts or row in self._guessed:
                self.verdicts[row] = self._judge.verdict(self._raws[row])
                self._guessed.discard(row)

    def guess(self, rows: Iterable[int]) -> None:
        """What these are if unknown fields are their only oddity; those that are in doubt beyond that are judged."""
        doubtful = [row for row in rows if row not in self.verdicts]
        guesses: dict[int, RecordVerdict] = {}
        if self._guesses:
            asked = ((row, self._judge.guess(self._raws[row])) for row in doubtful)
            guesses = {row: guess for row, guess in asked if guess is not None}
            if self._block.readers.counts_large:
                unsure = {*unclassified([guess.text for guess in guesses.values()], self._block.readers)}
                guesses = {row: guess for at, (row, guess) in enumerate(guesses.items()) if at not in unsure}
        self.verdicts |= guesses
        self._guessed |= guesses.keys()
        self.judge(row for row in doubtful if row not in guesses)

    def read(self, reader: FastReader) -> Attempt:
        """All records that are not refused, by the reader."""
        rows, texts = texts_of(self._block.texts, self.verdicts)
        return reader.take(texts, seen=True), rows, texts

    def settled(self, taken: TakenValues, way: Way) -> JudgedBlock:
        """The block, once the reader has taken the rest. Verdicts that say no more than the record itself go."""
        verdicts = self.verdicts
        if self._block.cut is None:
            raws, guessed = self._raws, self._guessed
            verdicts = {r: v for r, v in verdicts.items() if r in guessed or v != RecordVerdict(raws[r])}
        return JudgedBlock(len(self._raws), taken, verdicts, self._block.notes, way)


def classified(
    block: Block, opinions: Opinions, reader: FastReader, doubtful: Iterable[int] | None, suspects_max: int
) -> JudgedBlock:
    """A block with a look at each record. doubtful: rows that the classifier is to be asked about; None: all judged.

    suspects_max: values of a refused part that are judged instead of being searched further.
    """
    plain = block.readers.plain
    if doubtful is None:
        opinions.judge(range(len(block.sent)))
    else:
        opinions.guess(doubtful)
    way = Way.CLASSIFIED
    taken, rows, texts = opinions.read(reader)
    if taken is None:
        way = Way.SEARCHED
        opinions.judge(rows[at] for at in _suspects(texts, reader, 0, suspects_max))
        taken, rows, texts = opinions.read(reader)
    if taken is None:
        way = Way.JUDGED
        opinions.judge(rows)
        taken, rows, texts = opinions.read(plain)
    if taken is None:
        way = Way.ONE_BY_ONE
        refused = RecordVerdict(None, PASSED_IN_VAIN)
        opinions.verdicts.update((rows[at], refused) for at in _unread(texts, plain, 0))
        taken, rows, texts = opinions.read(plain)
    if taken is None:
        raise RuntimeError("records that are read one by one are refused together")
    return opinions.settled(taken, way)


def unclassified(texts: Sequence[bytes | None], readers: ShapeReaders) -> Iterator[int]:
    """Those that the classifier does not pass, one after the other."""
    for at, text in enumerate(texts):
        try:
            readers.classify(text)
        except (*PARSE_ERRORS, TypeError):
            yield at


def _suspects(texts: pa.BinaryArray, reader: FastReader, start: int, suspects_max: int) -> list[int]:
    """Positions of the parts that hold all values which the reader refuses."""
    if len(texts) <= suspects_max:
        return list(range(start, start + len(texts)))
    found: list[int] = []
    step = max(len(texts) // 16, suspects_max)
    for at in range(0, len(texts), step):
        part = texts.slice(at, step)
        if reader.take(part, seen=True) is None:
            found += _suspects(part, reader, start + at, suspects_max)
    return found


def _unread(texts: pa.BinaryArray, reader: FastReader, start: int) -> list[int]:
    """Positions of the values that the reader refuses alone."""
    if reader.take(texts, seen=True) is not None:
        return []
    if len(texts) == 1:
        return [start]
    half = len(texts) // 2
    first = _unread(texts.slice(0, half), reader, start)
    return first + _unread(texts.slice(half), reader, start + half)
