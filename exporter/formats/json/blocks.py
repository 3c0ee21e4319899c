"""Values of one event type, block by block: each takes the cheapest way that proves it. Runs on Spark executors.

ways.py draws the ways; this chooses among them, takes the four cheap ones itself and leaves the others to
classified.py. Between blocks it remembers only what makes the next one faster (Habits, Layouts), never a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from exporter.formats.json.asked import JsonAsked
from exporter.formats.json.block import Block, JudgedBlock, texts_of
from exporter.formats.json.classified import Opinions, classified, unclassified
from exporter.formats.json.judge import Judge, RecordVerdict, outsized
from exporter.formats.json.layouts import Layouts
from exporter.formats.json.leaves import TIME_CUT_HINT
from exporter.formats.json.reading import FastReader, ShapeReaders, TakenValues
from exporter.formats.json.shapes import Map, decimal_guard, nodes_of
from exporter.formats.json.ways import Habits, Tuning, Way

Verdicts = Mapping[int, RecordVerdict]


class BlockReader:
    """Gives a verdict on the first of some values, as many as are worth reading at once."""

    def __init__(self, asked: JsonAsked, readers: ShapeReaders, judge: Judge, tuning: Tuning) -> None:
        self.habits = Habits(tuning.block_rows)
        self.layouts = Layouts(readers.root)
        self._asked = asked
        self._readers = readers
        self._marked = readers
        self._judge = judge
        self._tuning = tuning
        self._guard = decimal_guard(readers.root)
        writes_maps = any(isinstance(node, Map) and node.entries for node in nodes_of(readers.root))
        self._all_unknown = asked.keeps_all
        self._as_sent = not writes_maps and not self._all_unknown
        self._judge_all = writes_maps or tuning.judge_all

    def judge_block(self, values: pa.BinaryArray) -> JudgedBlock:
        """The first of these values, by the cheapest way that proves them (ways.py)."""
        habits = self.habits
        block = self._block(values.slice(0, habits.rows))
        settled = {row: self._read_alone(raw) for row, raw in outsized(block.sent).items()}
        guarded = [row for row in self._guarded(block.texts) if row not in settled]
        each = self._judge_all or self._all_unknown
        at_once = each or habits.classified >= self._tuning.wary_after or self._rewritten(guarded, block)
        if not at_once:
            settled |= self._cut_short(block.sent, settled)
        done = None if at_once else self._read(block, settled)
        if done is not None:
            habits.classified = 0
        else:
            done = self._classified(block if at_once else block.first(self._tuning.part_rows), guarded, settled)
            habits.classified = habits.classified + 1 if done.verdicts else 0
        refused = done.size < len(block.sent) or len(done.verdicts) > len(settled)
        grown = min(habits.rows * 5 // 4, self._tuning.block_rows)
        habits.rows = self._tuning.part_rows if refused and not each else grown
        if not each and self._learn(block.sent, done.verdicts):
            habits.rows = self._tuning.block_rows
        return done

    def _block(self, values: pa.BinaryArray) -> Block:
        """The values, without the unknown fields whose place is known."""
        cut = None if self._alone else self.layouts.cut(values)
        return Block(values, *((values, None, self._readers) if cut is None else (cut.texts, cut, self._marked)))

    @property
    def _alone(self) -> bool:
        """Whether refused records must not be read with good ones, because the reader counts what it cuts in all."""
        return self.habits.long and self._asked.policy == "dead_letter"

    def _reader(self, block: Block) -> FastReader:
        return block.readers.long if self.habits.long else block.readers.plain

    # --- before the block is read -------------------------------------------------------------------------

    def _read_alone(self, raw: bytes) -> RecordVerdict:
        """The verdict on a record that the judge sees only if the reader takes neither it nor its declared fields."""
        for guess in (RecordVerdict(raw), self._judge.guess(raw)) if self._as_sent else ():
            text = pa.array([] if guess is None else [guess.text], pa.binary())
            if guess is not None and not self._guarded(text) and self._readers.plain.take(text) is not None:
                return RecordVerdict(None, guess.reason) if guess.reason else guess
        return self._judge.verdict(raw)

    def _guarded(self, texts: pa.BinaryArray) -> list[int]:
        """Rows that may hold a decimal which the reader gets wrong; none where the judge sees every row anyway."""
        if self._guard is None or self._judge_all:
            return []
        hits: list[int] = pc.indices_nonzero(pc.match_substring_regex(texts, self._guard)).to_pylist()
        return hits

    def _rewritten(self, guarded: list[int], block: Block) -> bool:
        """Whether the judge does not pass all of these rows as they are read."""
        if len(guarded) * self._tuning.guarded_share > len(block.sent):
            return True
        for row in guarded:
            raw = block.sent[row].as_py()
            verdict = self._judge.verdict(raw)
            as_cut = block.cut is not None and block.cut.found[row].as_py() == verdict.unknown and not verdict.changed
            if verdict.text is None or (verdict != RecordVerdict(raw) and not as_cut):
                return True
        return False

    def _cut_short(self, values: pa.BinaryArray, settled: Verdicts) -> dict[int, RecordVerdict]:
        """The refused among values that do not end as an object does, if these are few: none is read in vain."""
        ended = pc.ends_with(values, pattern="}")
        if not 0 < ended.false_count <= self._tuning.few:
            return {}
        rows = pc.indices_nonzero(pc.invert(ended)).to_pylist()
        judged = {row: self._judge.verdict(values[row].as_py()) for row in rows if row not in settled}
        return {row: verdict for row, verdict in judged.items() if verdict.text is None}

    # --- the cheap ways -----------------------------------------------------------------------------------

    def _read(self, block: Block, settled: dict[int, RecordVerdict]) -> JudgedBlock | None:
        """WHOLE, CUT_SHORT, BEFORE or WITHOUT; None if none of them gives a verdict on each.

        settled: rows with a verdict already.
        """
        rows, texts = texts_of(block.texts, settled)
        taken, named = self._take_or_name(texts, block)
        way = Way.CUT_SHORT if settled else Way.WHOLE
        if named is not None:
            first, way = rows[named], Way.BEFORE
            block = block.first(max(first, self._tuning.part_rows))
            settled = _of_first(len(block.sent), settled)
            if first < self._tuning.part_rows:
                return self._without(block, first, settled)
            taken = self._reader(block).take(texts_of(block.texts, settled)[1])
        return None if taken is None else JudgedBlock(len(block.sent), taken, settled, block.notes, way)

    def _without(self, block: Block, first: int, settled: Verdicts) -> JudgedBlock | None:
        """WITHOUT: all but a few, `first` among them; None if there are more or others."""
        rows: Sequence[int] = range(len(block.sent))
        named: int | None = first
        verdicts = dict(settled)
        while named is not None and len(verdicts) < self._tuning.few + len(settled):
            row = rows[named]
            if row in verdicts:
                return None
            raw = block.sent[row].as_py()
            guess = None if self._alone else self._judge.guess(raw)
            verdicts[row] = guess or self._judge.verdict(raw)
            if verdicts[row] == RecordVerdict(raw):
                return None
            rows, texts = texts_of(block.texts, verdicts)
            taken, named = self._take_or_name(texts, block)
            if taken is not None:
                return JudgedBlock(len(block.sent), taken, verdicts, block.notes, Way.WITHOUT)
        return None

    def _take_or_name(self, texts: pa.BinaryArray, block: Block) -> tuple[TakenValues | None, int | None]:
        """All texts of a block; or the one that the reader names, else the first that the classifier does not pass."""
        taken, named = self._reader(block).take_or_name(texts)
        if taken is None and named is None:
            named = next(unclassified(texts.to_pylist(), block.readers), None)
        return taken, named

    # --- the ways that look at each record ----------------------------------------------------------------

    def _classified(self, block: Block, guarded: list[int], settled: Verdicts) -> JudgedBlock:
        """CLASSIFIED, or what is below it."""
        size = len(block.sent)
        opinions = Opinions(block, self._judge, _of_first(size, settled), guesses=not self._alone)
        doubtful = None
        if not self._judge_all:
            opinions.judge(self._known_doubts(block.texts, [row for row in guarded if row < size]))
            texts = block.texts.to_pylist()
            doubtful = range(size) if self._all_unknown else unclassified(texts, block.readers)
        return classified(block, opinions, self._reader(block), doubtful, self._tuning.suspects_max)

    def _known_doubts(self, texts: pa.BinaryArray, guarded: list[int]) -> list[int]:
        """Rows that the reader is known to get wrong or refuse."""
        if not self.habits.cuts or self.habits.long:
            return guarded
        return [*guarded, *pc.indices_nonzero(pc.match_substring_regex(texts, TIME_CUT_HINT)).to_pylist()]

    # --- after the block ----------------------------------------------------------------------------------

    def _learn(self, sent: pa.BinaryArray, verdicts: Verdicts) -> bool:
        """Look where some of the records that had to be taken apart have their unknown fields; whether that is news."""
        rows = [row for row, verdict in verdicts.items() if verdict.unknown and verdict.text is not None]
        learnt_max = self._tuning.learnt_max
        some = rows[:: max(1, len(rows) // learnt_max)][:learnt_max]
        news = any(self.layouts.learn(sent[row].as_py()) for row in some)
        if news:
            layouts, shape = self.layouts, self._asked.shape
            self._marked = ShapeReaders(lambda long: layouts.marked(shape(long)), self._asked, layouts.marks)
        return news


def _of_first(size: int, verdicts: Verdicts) -> dict[int, RecordVerdict]:
    """The verdicts on the first rows."""
    return {row: verdict for row, verdict in verdicts.items() if row < size}
