"""The ways that a block of values can take through the readers, and what decides which. Runs on Spark executors.

A block takes the first way that gives a verdict on all of its records. Each costs more than those above it.

    way          taken if                                           who looks at what
    WHOLE        nothing speaks against it                          reader: all
    CUT_SHORT    a few records do not end as an object does         judge: these; reader: all others
    BEFORE       the reader refuses; the first bad record is        reader: all, then only those before that record
                 further than part_rows away
    WITHOUT      the reader refuses; a few records of the first     judge: these; reader: the part once more for each
                 part_rows are bad
    CLASSIFIED   more are bad; or it came to this in the last       classifier: all; judge: the doubtful;
                 blocks; or the reader may get a decimal wrong;     reader: what these passed
                 or each record must be judged
    SEARCHED     the reader refuses what these passed               reader: parts of parts; judge: the refused ones
    JUDGED       the reader still refuses                           judge: all
    ONE_BY_ONE   the reader still refuses                           reader: halves of halves; one refused alone is bad

BEFORE and WITHOUT give a verdict on the first records of the block only, CLASSIFIED and those below it on the first
part_rows, unless the block is classified at once: what is behind them begins the next block. Whatever the way, the
verdict on a record is the same (ROUTE).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Way(Enum):
    """One line of the table above."""

    WHOLE = auto()
    CUT_SHORT = auto()
    BEFORE = auto()
    WITHOUT = auto()
    CLASSIFIED = auto()
    SEARCHED = auto()
    JUDGED = auto()
    ONE_BY_ONE = auto()


@dataclass(frozen=True)
class Tuning:
    """When which way is taken. None of it changes a verdict."""

    block_rows: int = 4_096
    """Values that are read at once, as long as none is refused: as text they fit a core's cache."""
    part_rows: int = 512
    """So many are read at once after a refused one, then a quarter more each time: few others are read a second
    time."""
    suspects_max: int = 80
    """Values of a refused part that are judged instead of being searched further."""
    few: int = 4
    """So many refused records of a part are judged one by one before the classifier is asked about all."""
    wary_after: int = 2
    """After so many blocks in a row that had to be classified the next one is classified at once."""
    guarded_share: int = 20
    """If more than one value in so many may hold a decimal that the reader gets wrong, its block is classified at
    once."""
    learnt_max: int = 4
    """So many records of a block are looked at for where their unknown fields stand."""
    judge_all: bool = False
    """Every record is judged: slow, and beyond doubt."""
    maps_as_objects: bool = True
    """Maps are read as objects where the reader can; otherwise the judge writes each as a list of its entries."""


@dataclass
class Habits:
    """What the values so far suggest about the next ones. rows: size of the next block.

    classified: blocks in a row that were classified, and not in vain. cuts: whether some timestamps of the last batch
    had more than six fraction digits. long: whether one in a hundred of its records or more had.
    """

    rows: int
    classified: int = 0
    cuts: bool = False
    long: bool = False
