"""Event types met at run time: what a manifest still waits for, and how many there may be. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from exporter.core.manifest import TYPES_OVER_MAX, RoundResult
from exporter.core.order import TableTarget
from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import Fragment, WriterKey, Writers, missing_anchors
from exporter.errors import InvariantBroken
from offsets import Invariant
from offsets.positions import Position
from offsets.ranges import TopicPartition

SHOWN_MAX = 5


def unanchored(
    writers: Writers, owned: Mapping[TopicPartition, int], result: RoundResult
) -> dict[WriterKey, Position]:
    """What the manifest's types without a position are to be anchored at: where the dead letters are (protocol 5.2).

    A fragment of a partition that is no longer ours, or is being read again, waits for nothing: it is discarded.
    """
    wanted = {}
    for fragment in result.fragments:
        tp = fragment.plan.tp
        dead_letters = writers.get(WriterKey(DEAD_LETTERS, tp))
        if dead_letters is None or owned.get(tp) != fragment.plan.ownership:
            continue
        for name in missing_anchors(writers, fragment):
            wanted[WriterKey(name, tp)] = Position(dead_letters.epoch, dead_letters.covered)
    return wanted


def stamped(fragment: Fragment, tables: Mapping[str, TableTarget]) -> Fragment:
    """The fragment with the files of new types marked as staged against the tables that these have now.

    They have no column of those that are planned since, be it with the first look at the table. Of one that is not just
    as a new one is made nothing is taken: it is read again.
    """
    files = {}
    for name, staged in fragment.files.items():
        if all(file.fingerprint for file in staged):
            files[name] = staged
        elif name in tables and tables[name].plain:
            files[name] = tuple(replace(file, fingerprint=tables[name].plain) for file in staged)
    return replace(fragment, files=files)


def require_few(known: Collection[str], result: RoundResult, new_types_max: int) -> None:
    """Raises InvariantBroken if the topic has more undeclared event types than there may be tables for.

    A record's way must not depend on which types came first (ROUTE), so one type too many is no dead letter.
    """
    met = {name for fragment in result.fragments for name, staged in fragment.files.items()
           if not all(file.fingerprint for file in staged)} - set(known)  # fmt: skip
    if len(known) + len(met) <= new_types_max and not result.counts.get(TYPES_OVER_MAX):
        return
    shown = ", ".join(repr(name[:80]) for name in sorted(met)[:SHOWN_MAX])
    raise InvariantBroken(
        Invariant.ROUTE,
        f"more than {new_types_max} event types are met that are not declared; new ones: {shown or 'none counted'}",
        "are these event types? then raise `new_types_max`; if not, correct [type_from] or declare the types that you "
        'want and set `new_type = "dead_letter"`',
    )
