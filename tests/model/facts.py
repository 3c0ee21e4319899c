"""What is searched: each kind of world, what holds in every state of it, and how large it is.

    two, one      world.py: sections 3 and 4, one partition: two processes, or one against all that others may do
    fan, fan_one  3.9: the same with records of several tables, and counts of what filters leave out
    pair          4.1, 4.3, 4.4 for commits that carry two partitions
    switch        5.3: the configuration changes; met: while a type is met at run time (4.7)
    restore       4.5, 5.1, 7: RESTORE and repair, poison records among them (3.7)
    poison        3.7, 7: a record that ends its tasks after some tables have passed it
    reading       5.3: a reading beside the loop, while its partition comes and goes
    evolve        4.10: columns that grow, beside records that fit them or do not
    schema        3.8: values whose schemas a registry has, or has not, or has later
    sweep         6: who may delete
    derive        9: jobs over a source that is replayed, RESTOREd, re-based and made anew; mirror: the newest row of
                  each key; sent: records of a topic
    coordinate    4.11: two tasks, a leader each, and a lossy channel; through: 4.12, valid_through; announce: 4.13
    wal           ORDER, 5.1, 6: the real commit path, journal, payment and start-up, effect by effect
    aged          4.14: rows that a table keeps no more
    filled        4.15: columns that came later
    erased        4.16: records that are erased
    lease         8: leases of the log

The size of the default worlds is chosen for half a minute on one core. Found by `wal`: with wal_mode = best_effort an
outage of a single commit stopped the task (tests/unit/wal/test_journal.py keeps the history).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WorldScope = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """fact: what holds. small: scopes that are searched whole in each run.

    more: whole too, if asked for. large: if asked for, as far as the first `states_max` states.
    """

    fact: str
    small: tuple[WorldScope, ...]
    more: tuple[WorldScope, ...] = ()
    large: tuple[WorldScope, ...] = ()
    states_max: int = 500_000


WORLDS: dict[str, Facts] = {
    "two": Facts(
        "Two processes that both believe they own the partition lose nothing and double nothing, and no guard fires.",
        small=(
            {"log": "A"}, {"log": "AD"}, {"log": "C"}, {"log": "C", "anchored": False, "drops": False},
            {"log": "A.D", "drops": False}, {"log": "AA", "park": True, "drops": False},
            {"log": "AD", "reassign": True, "drops": False}, {"log": "A", "rounds_max": 2},
            {"log": "AA", "rounds_max": 2, "drops": False},
        ),
        large=({"log": "AC", "drops": False}, {"log": "A.D"}, {"log": "A.", "late": True, "drops": False}),
        states_max=2_000_000,
    ),
    "one": Facts(
        "Against any legal step of any number of others, each step of a process is legal itself.",
        small=(
            {"log": "C"}, {"log": "A.D", "drops": False}, {"log": "A.", "late": True, "drops": False},
            {"log": "C", "rounds_max": 2, "drops": False}, {"log": "AD", "rounds_max": 2, "drops": False},
            {"log": "C", "reassign": True}, {"log": "AA", "park": True},
            {"log": "CC", "park": True, "parks": "D", "drops": False},
        ),
        large=(
            {"log": "AC"}, {"log": "A.D"}, {"log": "A.C", "drops": False}, {"log": "AC", "late": True, "drops": False},
            {"log": "A.AD", "drops": False}, {"log": "AA", "rounds_max": 2},
            {"log": "AC", "rounds_max": 2, "drops": False},
        ),
        states_max=2_000_000,
    ),
    "fan": Facts(
        "ONCE per table; the counts of the commits are exact in every state, whoever crashed, dropped or was parked.",
        small=(
            {"log": "b"}, {"log": "L", "drops": False}, {"log": "g", "rounds_max": 2, "drops": False},
            {"log": "g", "park": True, "drops": False}, {"log": "u", "reassign": True, "drops": False},
        ),
        large=(
            {"log": "lu", "drops": False}, {"log": "gf", "rounds_max": 2, "drops": False},
            {"log": "g", "late": True, "drops": False},
        ),
        states_max=2_000_000,
    ),
    "fan_one": Facts(
        "The same of one process, whatever others do.",
        small=(
            {"log": "gu", "drops": False}, {"log": "Lf", "drops": False}, {"log": "g", "late": True, "drops": False},
            {"log": "g", "reassign": True},
        ),
        large=(
            {"log": "gg", "rounds_max": 2, "drops": False}, {"log": "fg", "park": True, "drops": False},
            {"log": "lgu", "drops": False},
        ),
        states_max=2_000_000,
    ),
    "pair": Facts(
        "Refused for one partition, offered again for the other, landed for both, whatever the other process owns.",
        small=(
            {"drops": True, "revokes": True}, {"late": True}, {"logs": ("AA", "A"), "revokes": True},
            {"logs": ("A", "."), "late": True, "revokes": True},
        ),
        large=({"logs": ("AA", "AA"), "revokes": True, "drops": True}, {"logs": ("AA", "A"), "late": True}),
    ),
    "switch": Facts(
        "Old and new tasks, crashing and pausing at will, write each record under exactly one configuration.",
        small=(
            {}, {"old": "AD.", "new": "DA."}, {"old": "ADA", "new": "DAD"}, {"olds": 2}, {"news": 2},
            {"olds": 2, "news": 2}, {"lates": 1}, {"olds": 0, "lates": 2},
            {"old": "ABD", "new": "BDA", "types": "ABD", "in_old": "ABD"},
            {"old": "AD", "new": "BA", "types": "ABD", "in_old": "AD"},
            {"old": "AD", "new": "BA", "types": "ABD", "in_old": "AD", "news": 2},
        ),
    ),
    "met": Facts(
        "An undeclared type's table, made while the configuration changes, takes each record under one configuration.",
        small=({}, {"takes": True, "new": "AC"}, {"there": True, "takes": True, "new": "CD"}),
        large=(
            {"olds": 2}, {"olds": 2, "news": 2, "takes": True, "new": "AC"},
            {"old": "ACA", "new": "DAD", "olds": 2, "there": True},
        ),
    ),
    "restore": Facts(
        "No record is lost or doubled in silence, however repairs, tasks and further RESTOREs interleave.",
        small=(
            {}, {"log": "A", "tasks": 2}, {"log": "A", "repairs": 2, "restores": 2}, {"log": "AD", "restorable": "AD"},
            {"log": "AA", "tasks": 2}, {"log": "AA", "restores": 2, "still": "D"},
            {"log": "A", "restores": 3, "still": "D"}, {"log": "XD", "restorable": "D"},
        ),
        large=(
            {"log": "AA", "restores": 2, "repairs": 2, "tasks": 2, "still": "D"}, {"log": "AA", "restores": 2},
            {"log": "AA", "restores": 2, "repairs": 2}, {"log": "AD", "restorable": "AD", "restores": 2},
            {"log": "ABD", "types": "ABD", "restorable": "ABD"},
        ),
    ),
    "poison": Facts(
        "A record that comes to end its tasks is in one table, whichever have passed it, hold it, or are repaired.",
        small=(
            {"heals": True}, {"kind": "D", "heals": True}, {"back": "D", "heals": True}, {"met": True, "heals": True},
            {"tasks": 2, "repairs": 0, "heals": True}, {"kind": "D", "tasks": 2, "repairs": 0},
            {"tasks": 2, "repairs": 0, "met": True},
        ),
        more=(
            {"tasks": 2, "repairs": 2, "heals": True}, {"tasks": 2, "back": "D", "heals": True, "met": True},
            {"kind": "D", "tasks": 2, "back": "D", "heals": True},
        ),
    ),
    "reading": Facts(
        "A partition comes and goes while its tables are read: an old reading puts no record into a second place.",
        small=({}, {"spares": False}),
    ),
    "evolve": Facts(
        "Whatever another task has added, a record that is read again is where it was, and no column changes.",
        small=(
            {}, {"again_max": 0}, {"logs": ("tx", "i")}, {"logs": ("j", "i"), "drops": True}, {"tasks": "001"},
            {"logs": ("t", ""), "tasks": "00", "late": True},
            {"logs": ("t", ""), "tasks": "0", "drops": True, "forgets": True, "late": True},
            {"logs": ("ti", ""), "tasks": "0", "forgets": True}, {"logs": ("i", "ij")},
        ),
        large=(
            {"logs": ("ti", "j")}, {"logs": ("tx", "i"), "tasks": "001"},
            {"logs": ("t", "ia"), "again_max": 0, "tasks": "001"}, {"late": True}, {"forgets": True},
            {"logs": ("b", "j"), "promotes": True},
        ),
    ),
    "schema": Facts(
        "A record is where the first decision on its schema puts it: tasks that know less of it wait.",
        small=(
            {}, {"tasks": 1, "log": "111"}, {"tasks": 3, "log": "1"}, {"texts": "gb", "wiped": True}, {"rounds": 2},
            {"log": "12", "tasks": 1, "rounds": 2},
        ),
        more=({"log": "121", "tasks": 1, "rounds": 2},),
        large=(
            {"log": "12"}, {"log": "12", "texts": "gb", "wiped": True}, {"log": "111"},
            {"log": "121", "tasks": 1, "rounds": 2, "texts": "gb", "wiped": True}, {"log": "11", "tasks": 3},
            {"log": "12", "rounds": 2},
        ),
    ),
    "sweep": Facts(
        "No file is deleted that is or may still be committed, whoever commits, restores or closes the epoch.",
        small=(
            {"attempts": 2}, {"closes": True}, {"steps": 1}, {"writers": 1, "attempts": 2, "steps": 2, "closes": True},
        ),
        large=({"attempts": 2, "closes": True, "steps": 1},),
    ),
    "derive": Facts(
        "A job takes each row once, whatever is replayed, restored, re-based or dropped, in however many processes.",
        small=(
            {}, {"log": "aaa", "most": 1}, {"log": "aX"}, {"restores": 1}, {"log": "aX", "restores": 1, "jobs": 1},
            {"restores": 2, "jobs": 1}, {"rebases": 1}, {"rebases": 1, "most": 1, "jobs": 1}, {"drops": 1},
        ),
        large=(
            {"log": "a", "restores": 1, "rebases": 1, "drops": 1},
            {"restores": 1, "rebases": 1, "drops": 1, "jobs": 1}, {"log": "aXa", "restores": 2, "most": 1, "jobs": 1},
            {"log": "aXa", "rebases": 2, "most": 1}, {"jobs": 3, "restores": 1},
        ),
    ),
    "mirror": Facts(
        "It shows the newest row of each key: late rows, deletes, purges and a source that took rows back among it.",
        small=(
            {"log": ("a2-", "a1", "a3")}, {"log": ("a2-", "A1", "a3"), "jobs": 1}, {"log": ("a2?", "a1+"), "jobs": 2},
            {"log": ("a1+", "a2-", "a3?"), "jobs": 1, "restores": 1},
            {"log": ("a1", "b1", "a0"), "jobs": 1, "restores": 1},
            {"log": ("a1", "a2-", "b1"), "jobs": 1, "restores": 1, "purges": 1},
            {"log": ("a1+", "a3?", "*2", "b1", "b4"), "jobs": 2},
            {"log": ("a1", "*2", "a3", "b1"), "jobs": 1, "restores": 1}, {"restores": 1},
        ),
        large=(
            {"log": ("a1", "b1", "b2"), "restores": 1}, {"log": ("a1", "b1", "a0", "b2-"), "restores": 1, "purges": 1},
        ),
    ),
    "sent": Facts(
        "A topic has each row once and in order, however senders crash, sleep and wake, and whatever the broker ends.",
        small=({}, {"rows": 3, "senders": 1, "most": 1}),
        large=({"rows": 3, "senders": 3},),
    ),
    "coordinate": Facts(
        "ONCE, COVER and ORDER, whatever messages are lost, doubled or late, whoever leads, and whoever dies.",
        small=(
            {"ids": 1}, {"ids": 1, "lies": True, "owns": ((0,), (0,))}, {"ids": 1, "alters": 2, "owns": ((0, 1), ())},
        ),
        large=({}, {"lies": True}, {"ids": 1, "owns": ((0, 1), (0, 1))}, {"ids": 1, "revokes": True}),
    ),
    "through": Facts(
        "valid_through in ordered input: whoever commits what, and whatever comes between a look and its commit.",
        small=({}, {"mode": "strict"}, {"partitions": 1, "added": 1, "records": 2}, {"leaders": 1, "records": 4}),
        large=({"records": 4}, {"added": 1}, {"leaders": 3}, {"leaders": 1, "partitions": 3, "records": 4}),
    ),
    "announce": Facts(
        "A consumer hears of each version, in order, whoever announces and dies, and whatever is not kept any more.",
        small=({}, {"log": "r.r", "there": 0}, {"log": "rrr", "cleans": True}),
        large=({"faults": 2, "cleans": True}, {"tasks": 3, "log": "rr"}, {"there": 0, "log": "rr.rr"}),
    ),
    "wal": Facts(
        "ORDER: whatever fails, dies or is lost, the log is told before and after each commit, and stops no process.",
        small=(
            {"processes": 1, "offers": 2, "faults": 2}, {"faults": 0}, {"lives": 1, "offers": 2},
            {"lives": 1, "wipes": True}, {"lives": 1, "required": False}, {"processes": 1, "offers": 2, "drops": True},
        ),
        large=(
            {}, {"drops": True, "lives": 1}, {"required": False}, {"records": 2}, {"wipes": True},
            {"lives": 1, "offers": 2, "faults": 2},
        ),
    ),
    "aged": Facts(
        "What is too old goes, once its table says so: no audit misses it, whoever dies, comes late or is taken back.",
        small=({}, {"turns": 2, "log": "01"}, {"log": "00", "kept": 2}),
        large=({"turns": 2}, {"log": "0120", "restores": 2}),
    ),
    "filled": Facts(
        "A column that came later gets its values from `_rescued`: no row is lost, doubled or back, whoever dies.",
        small=({}, {"turns": 2, "records": 1}, {"records": 3, "restores": 0}),
        large=({"turns": 2}, {"records": 3}, {"deletes": 2, "rewrites": 2}),
    ),
    "erased": Facts(
        "A record that is erased is in no table that says so, whoever had it staged, dies, or takes the table back.",
        small=({}, {"tasks": 2, "restores": 0}, {"erasers": 2, "records": 1}),
        large=({"tasks": 2}, {"erasers": 2}, {"subject": 1, "restores": 2}),
    ),
    "lease": Facts(
        "By everybody's own monotonic clock it is never two's, however long a request or its answer is under way.",
        small=({}, {"faults": 1, "ticks": 2}),
        large=({"ticks": 5}, {"ticks": 4, "faults": 1}, {"ticks": 4, "lives": 2}),
    ),
}  # fmt: skip
