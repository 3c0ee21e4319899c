"""The rules of landing each record exactly once, and the stored views they read.

Everything here is pure: values in, values out. Nothing in this package imports
pyspark, kafka, click or the exporter, so each rule can be read, tested and searched
exhaustively without a cluster.
"""

from __future__ import annotations

from enum import Enum


class Invariant(str, Enum):
    """The ten invariants. Code, errors and tests use these names."""

    ONCE = "every record is in exactly one committed file of its type's table, or in one dead-letter row"
    COVER = "a table's position never passes a record of its type that it has not committed"
    ANCHOR = "nothing is integrated before every type in it has its position present for that partition"
    FENCE = "a commit lands only if the positions it replaces are those its writer expects; new > expected"
    MONOTONE = "a position never goes back"
    FLOOR = "a plan starts at the least frontier of the types it lists, plus one"
    ROUTE = "where a record goes depends on the record and the routing fingerprint alone"
    NAMES = "file names parse back to what built them; ranges of files of one writer and folder are disjoint"
    ORDER = "started in the write-ahead log, the Delta commit, completed in the log, the Kafka group offset"
    TEMP = "only the sweep and VACUUM delete files; the commit path never does"
