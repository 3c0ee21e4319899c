"""`exporter repair`: puts positions right that an accident left wrong; a dry run unless told to apply (protocol 7).

    rewind   a table was restored, overwritten, replaced or removed: back to what it certainly holds (rewind.py)
    rebase   the topic was deleted and created again: the next epoch begins at the new topic's first record (rebase.py)
    adopt    tables of another app: its positions are carried over under ours (adopt.py)
    skip     records that no task gets past are given up (skip.py)
    log      the write-ahead log lags behind the tables: finish what was begun, fill what was lost (wal.py)

The plans are made from one reading of all tables (reading.py), by what is pure in offsets/rewind.py; applying.py puts
them into effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from exporter.errors import DependencyUnreachable
from exporter.kafka.topics import FirstPosition, partitions_of
from exporter.operate.audit.audit import audit
from exporter.operate.audit.report import AuditReport
from exporter.operate.repair.adopt import Adopt
from exporter.operate.repair.applying import Applying
from exporter.operate.repair.damage import refuse_damage
from exporter.operate.repair.reading import NothingToRepair, RepairReading
from exporter.operate.repair.rebase import Rebase
from exporter.operate.repair.rewind import Rewind
from exporter.operate.repair.skip import Skip
from exporter.operate.repair.steps import RepairRow
from exporter.operate.repair.wal import put_log_right
from exporter.wal.check import LogCheck
from exporter.wal.journal import Journal
from exporter.workbench import Workbench
from offsets.intents import WalUnreachable
from offsets.ranges import TopicPartition


def repair(
    bench: Workbench,
    action: str,
    former: str,
    first_position: FirstPosition,
    apply: bool,
    journal: Journal | None = None,
    skipped: Mapping[TopicPartition, Sequence[int]] = MappingProxyType({}),
) -> list[RepairRow]:
    """action: rewind, rebase, adopt (the tables of app `former`), skip (`skipped`), or log.

    first_position: where a new topic begins. journal: of the write-ahead log.

    Raises NothingToRepair, Refused if the tables do not decide it, Fenced if they do not come to rest.
    """
    topics = bench.topics

    def compared() -> AuditReport:
        return audit(bench.lake, topics, bench.routing)

    lake, identities, journal = bench.lake, topics.identities(), journal or Journal()
    log_check = LogCheck(lake, journal)
    plans = {
        "rewind": Rewind(lake, identities, log_check, compared).plan,
        "rebase": Rebase(lake, identities, lambda tps: first_position.offsets(topics, tps)).plan,
        "adopt": Adopt(lake, identities, former).plan,
        "skip": Skip(lake, topics, bench.routing.isolation, skipped).plan,
    }
    try:
        if action == "log":
            return put_log_right(lake, log_check, partitions_of(identities), apply)
        return Applying(lake, journal, action).run(plans[action], apply)
    except NothingToRepair:
        if action == "rewind":
            refuse_damage(RepairReading(lake, lake.app), topics.first_offsets)
        raise
    except WalUnreachable as error:
        says = f"write-ahead log: {error.message}"
        raise DependencyUnreachable(says, "start the repair again when it answers") from error
