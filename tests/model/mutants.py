"""Rules taken out one by one: what is replaced in a copy of the code, and what the search must find then.

A mutant edits a temporary copy of exporter/, offsets/ and this package; each text must occur exactly
once, so that a rule that was rewritten makes its test fail loudly. Rules that belong to effects
(Delta's commit, anchoring, re-reading) are edited in the world, which plays them.

`expected` empty: taking this one rule out alone breaks nothing, because another rule holds it too.
Those are kept, as statements about the core, beside the pair that does break.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
STATES_MAX = 60_000
DAYS = Path("tests/support/days.py")
"""What the worlds need of the tests beside them."""
NAMES_TESTS = Path("tests/unit/offsets/test_names.py")
"""The property tests that stand for a search where a name is all that there is."""

WRITERS, HEARTBEAT, OUTCOME = "exporter/core/writers.py", "exporter/core/heartbeat.py", "exporter/core/outcome.py"
PLAN, ROLL, CROSSCHECK = "exporter/core/plan.py", "exporter/core/roll.py", "offsets/crosscheck.py"
SWEEPING, REWIND, TABLE_LOG = "offsets/sweeping.py", "offsets/rewind.py", "offsets/table_log.py"
WORLD, SWITCH, PAIR = "tests/model/world.py", "tests/model/switch_world.py", "tests/model/pair_world.py"
SWEEP, RESTORE = "tests/model/sweep_world.py", "tests/model/restore_world.py"
CONDEMN, CONDEMNING = "tests/model/condemn_world.py", "offsets/condemning.py"
BISECTION = "exporter/core/bisection.py"
LEASE, LEASES = "exporter/wal/lease_keeper.py", "offsets/leases.py"
EVOLVE, EVOLVED = "tests/model/evolve_world.py", "exporter/core/evolved.py"
SCHEMA, SCHEMAS = "tests/model/schema_world.py", "exporter/core/schemas.py"
DERIVE, CURSORS = "tests/model/derive_world.py", "offsets/cursors.py"
MIRROR, SENT = "tests/model/mirror_world.py", "tests/model/sent_world.py"
FAN, ROUTING = "tests/model/fan_world.py", "exporter/core/routing.py"
MET, NAMES = "tests/model/met_world.py", "offsets/names.py"
OWNERSHIP = "exporter/task/ownership.py"
COORDINATE, MERGING = "tests/model/coordinate_world.py", "exporter/core/merging.py"
MEMBER, SIGNATURE = "exporter/coordinate/member.py", "exporter/coordinate/signature.py"
ANNOUNCE, FOLLOWER = "tests/model/announce_world.py", "exporter/announce/follower.py"
THROUGH, VALID_THROUGH = "tests/model/through_world.py", "exporter/core/valid_through.py"
COMMIT, JOURNAL, KEEPER, RULING = (
    "exporter/protocol/commit.py", "exporter/wal/journal.py", "exporter/wal/keeper.py", "offsets/wal_verdict.py"
)  # fmt: skip

PACKAGES = [path for path in sys.path if path.endswith("-packages")]
"""Where third-party modules are; `site`, which knows, costs more than most searches."""

Edit = tuple[str, str, str]


@dataclass(frozen=True)
class Mutant:
    """rule: section and what was taken out. edits: (file, old text, new text). scope: of the world searched."""

    name: str
    rule: str
    edits: tuple[Edit, ...]
    expected: frozenset[str]
    scope: dict[str, Any] = field(default_factory=dict)
    world: str = "two"


LOSS = frozenset({"COVER", "ANCHOR"})
ANY = frozenset({"COVER", "ANCHOR", "ONCE", "MONOTONE"})
NOTHING: frozenset[str] = frozenset()

NO_BOUND_CHECK = (WRITERS, "    if not plan.start - 1 <= plan.bounds[name] == writer.frontier:\n", "    if False:\n")
NO_RANGE_CHECK = (WRITERS, "    if claim.new <= claim.expected:\n", '    if True:\n        return ""\n    if False:\n')
SKIP_COVERED = (
    WRITERS,
    "tuple(replace(file, staged_at=now) for file in files),\n",
    "tuple(file for file in files if file.offsets.last_offset > writer.covered),\n",
)
FREEZE_TAKES_STAGED = (
    WRITERS,
    "    return replace(writer, claim=claim)\n\n\ndef offered",
    "    return replace(writer, claim=claim, staged=())\n\n\ndef offered",
)
FREEZE_TWICE = (WRITERS, "    if writer.claim is not None:\n        raise", "    if False:\n        raise")
HEARTBEAT_UNRESOLVED = (HEARTBEAT, "        and writer.claim is None\n", "")
HEARTBEAT_STAGED = (HEARTBEAT, "        not writer.staged\n        and ", "        ")
ROLL_UNRESOLVED = (ROLL, "not writer.staged or writer.claim is not None or", "not writer.staged or")
NEVER_LANDED = (OUTCOME, "    if any(commit_id in logged_ids for commit_id in claim.offers):\n", "    if False:\n")
KEEP_AFTER_FREEZE = (
    WORLD,
    "        return drop(replace(writer, covered=position.offset))\n",
    "        kept = landed(writer, writer.claim, 0.0) if writer.claim else writer\n"
    "        return replace(kept, covered=position.offset)\n",
)

ADDS_TYPE = {"old": "AD", "new": "BA", "types": "ABD", "in_old": "AD"}
SWITCHED = frozenset({"ONCE", "COVER", "MONOTONE"})
NO_BEHIND_STOP = (CROSSCHECK, "        if position is not None and position.epoch < epoch:\n", "        if False:\n")
LETTERS_NOT_LAST = (SWITCH, "        return [i for i in left if i != self.letters] or left\n", "        return left\n")
LETTERS_READ_FIRST = (SWITCH, "        return (*others, self.letters)\n", "        return (self.letters, *others)\n")
NO_EXIT = (
    CROSSCHECK,
    "if state.position is not None and state.position.epoch > epoch:\n            return Unfinished(name)",
    "if False:\n            return Unfinished(name)",
)
OWN_EPOCHS = (SWITCH, "(found.epoch, found.positions[n]) if", "(live[n].epoch, found.positions[n]) if")

REFUSED_KEEPS = (
    PAIR,
    "            return _compact(landed(real, real.claim, 0.0))\n        return None\n",
    "            return _compact(landed(real, real.claim, 0.0))\n"
    "        return (found.position.offset, writer[1], writer[2], None)\n",
)
REST_RELEASED = (PAIR, "            return writer\n", "            return (*writer[:3], None)\n")
NOT_IN_DELTA = (
    SWEEPING,
    "name.last_offset <= transactions.get(str(AppId(name.app, name.tp, name.epoch)), -1)",
    "True",
)
SNAPSHOT_FIRST = (SWEEP, 'SWEEPS = ("lists", "takes a snapshot")', 'SWEEPS = ("takes a snapshot", "lists")')
DELETES_REFUSED = (
    SWEEP,
    "        return world\n\n    def logged",
    "        return _with(world, files=tuple(one for one in world[4] if one != file))\n\n    def logged",
)
READING_SURVIVES = (OWNERSHIP, "self.leaving, self._reading, assigned)", "self.leaving, assigned)")
ASKED_AGAIN_COUNTS = (OWNERSHIP, "if tp not in self._waiting and tp not", "if tp not")
EVOLVED_REFUSES = (
    EVOLVE, "return D if kind == BAD else A", "return D if kind == BAD or self.is_unfit(kind, columns) else A"
)  # fmt: skip
COLUMNS = frozenset({"COLUMNS"})
NEWEST = frozenset({"NEWEST"})
CURSOR_IGNORED = (CURSORS, "after = -1 if taken is None or taken.epoch < first else taken.offset", "after = -1")
SETBACKS_IGNORED = (CURSORS, "        if through < taken.offset:\n", "        if False:\n")
TOLD_APART = (
    SENT,
    "        return owner, before, seen, ((opened or ((), None))[0], progress)\n",
    "        return owner, progress, seen, opened\n",
)
FENCES_NO_RUN = (DERIVE, "        if dict(target[0]).get(run_id(APP, JOB_NAME), 0) != run:\n", "        if False:\n")
ROWS = frozenset({"ONCE", "COVER"})
UNFIT = frozenset({"ONCE", "COVER", "MONOTONE", "STOP"})
TWICE = {"log": "A", "restores": 2}
ORDER = frozenset({"ORDER"})
TOLD = frozenset({"TOLD"})
NO_CLAIMS = "        if not claims:\n            return\n"
ASKS_FIRST = (
    "        if not claims:\n"
    "            if not answers:\n"
    "                yield 'asks first', ((), None, {}), world\n"
    "            return\n"
)
TOLD_WITH_THE_COMMIT = (
    COORDINATE,
    "for one, p, _, state in before[2] if state in (STARTED, LEFT)}",
    "for one, p, *_ in (*before[2], *after[2])}",
)
BELIEVED = (
    "self._found(one.prepared) if why != ANSWERED else Report(one.prepared.event_type, 1, 0.0, tuple("
    "Settled(claim, Landed(Position(claim.epoch, claim.new))) for claim in one.prepared.offers))"
)
BELIEVES = (
    "from exporter.core.outcome import Landed, Prepared, Report, Settled\nfrom offsets.positions import Position\n"
)
REPLACES = (MEMBER, "from dataclasses import dataclass\n", "from dataclasses import dataclass, replace\n")
TELLS_THE_LOG = (
    COORDINATE,
    "        process = (writers, (offer_id, claims, SAID), name)\n",
    "        process = (writers, (offer_id, claims, SAID), name)\n"
    "        more = {(offer_id, one[0], one[2], STARTED) for one in claims if one[3]}\n"
    "        tables = (*tables[:2], tuple(sorted({*tables[2], *more})), *tables[3:])\n",
)


def falls_back(claim: str) -> Edit:
    """A task commits what it has offered under another id. claim: what becomes of each."""
    other = f"commit_id=one.prepared.commit_id + 'x', offers=tuple({claim} for claim in one.prepared.offers)"
    return MEMBER, "fall_back(one.prepared)", f"fall_back(replace(one.prepared, {other}))"


MUTANTS = (
    Mutant(
        "skip_covered_loss",
        "3.1 skip what is covered instead of discarding when bound != frontier: a loss",
        (NO_BOUND_CHECK, SKIP_COVERED),
        LOSS,
        {"log": "AA", "drops": False},
    ),
    Mutant(
        "skip_covered_duplicate",
        "3.1 the same, two rounds at once, without the check before the commit: a duplicate",
        (NO_BOUND_CHECK, SKIP_COVERED, NO_RANGE_CHECK),
        frozenset({"ONCE"}),
        {"log": "A", "drops": False, "rounds_max": 2},
    ),
    Mutant(
        "behind_what_was_dropped",
        "3.1 a round behind another is integrated, though what the other staged was dropped",
        (NO_BOUND_CHECK,),
        LOSS,
        {"log": "A", "rounds_max": 2},
        "one",
    ),
    Mutant(
        "unknown_type_any_anchor",
        "3.1 a type unknown at planning is integrated whatever its anchor",
        (
            (
                "exporter/core/writers.py",
                "writer.covered == writer.frontier == plan.start - 1 and not writer.staged",
                "True",
            ),
        ),
        ANY,
        {"log": "CC", "drops": False, "anchored": False},
        "one",
    ),
    Mutant(
        "failed_frontier_moves",
        "3.2 the frontier of a type that failed rule 3.1 moves as well",
        (
            (
                WRITERS,
                '            discarded[name] = refusal or "it has no position yet"\n',
                '            discarded[name] = refusal or "it has no position yet"\n'
                "            if writer is not None:\n"
                "                after[key] = replace(writer, frontier=max(writer.frontier, plan.end - 1))\n",
            ),
        ),
        LOSS,
        {"log": "A"},
    ),
    Mutant(
        "unlisted_frontier_moves",
        "3.2 the frontier of a type that is not listed (parked) moves as well",
        (
            (
                WRITERS,
                "    return Integrated(after, discarded)\n",
                "    moved = {k: replace(w, frontier=max(w.frontier, plan.end - 1)) for k, w in after.items()}\n"
                "    return Integrated(moved, discarded)\n",
            ),
        ),
        LOSS,
        {"log": "AA", "drops": False, "park": True},
    ),
    Mutant(
        "drop_keeps_frontier",
        "3.3 drop without frontier := covered",
        ((WRITERS, "staged=(), frontier=writer.covered, claim=None", "staged=(), claim=None"),),
        LOSS,
        {"log": "A"},
    ),
    Mutant(
        "no_anchor",
        "ANCHOR a manifest is integrated before its types are anchored",
        (
            (
                WRITERS,
                "    return tuple(sorted(name for name in met if",
                "    return tuple(sorted(name for name in () if",
            ),
        ),
        LOSS,
        {"log": "C", "drops": False},
    ),
    Mutant(
        "floor_is_max",
        "FLOOR the plan starts at the highest frontier, and 3.1 does not look at start",
        (
            (
                PLAN,
                "start = floor(writer.frontier for writer in listed)",
                "start = max(w.frontier for w in listed) + 1",
            ),
            (
                WRITERS,
                "if not plan.start - 1 <= plan.bounds[name] == writer.frontier:",
                "if not plan.bounds[name] == writer.frontier:",
            ),
        ),
        LOSS,
        {"log": "AA"},
    ),
    Mutant(
        "no_compare_and_set",
        "FENCE a commit lands whatever the position is",
        (
            (
                WORLD,
                "        if self.position(tables, index) != Position(0, expected):\n",
                "        if self.position(tables, index) is None:\n",
            ),
        ),
        ANY,
        {"log": "A", "drops": False},
    ),
    Mutant(
        "heartbeat_with_staged",
        "4.1 a heartbeat while files are staged",
        (HEARTBEAT_STAGED,),
        LOSS,
        {"log": "A", "drops": False},
    ),
    Mutant(
        "control_freeze_takes_staged",
        "control: freeze moves the files out of staged; all rules in force",
        (FREEZE_TAKES_STAGED,),
        NOTHING,
        {"log": "A."},
    ),
    Mutant(
        "heartbeat_unresolved",
        "4.1 a heartbeat with an unresolved commit (freeze moves the files out of staged)",
        (FREEZE_TAKES_STAGED, FREEZE_TWICE, HEARTBEAT_UNRESOLVED),
        LOSS,
        {"log": "A", "drops": False},
    ),
    Mutant(
        "heartbeat_unresolved_alone",
        "4.1 the same, but claimed files stay in staged: held by `not staged`",
        (FREEZE_TWICE, HEARTBEAT_UNRESOLVED),
        NOTHING,
        {"log": "AA", "drops": False},
    ),
    Mutant(
        "two_unresolved",
        "4.1 two unresolved commits of one writer (freeze moves the files out of staged)",
        (FREEZE_TAKES_STAGED, FREEZE_TWICE, ROLL_UNRESOLVED),
        LOSS,
        {"log": "AA", "drops": False},
    ),
    Mutant(
        "two_unresolved_alone",
        "4.1 the same, but each claim carries all that is staged: held by the compare-and-set",
        (FREEZE_TWICE, ROLL_UNRESOLVED),
        NOTHING,
        {"log": "AA", "drops": False},
    ),
    Mutant(
        "reoffer_same_id",
        "4.1 a re-offer freezes anew and keeps the commit id: held by the compare-and-set",
        (
            (
                WORLD,
                '        again = offered(writer, replace(real, offers=(*real.offers, f"c{len(real.offers) + 1}")))\n',
                "        anew = freeze(replace(writer, claim=None), 0)\n"
                "        again = offered(anew, replace(anew.claim, offers=real.offers))\n",
            ),
        ),
        NOTHING,
        {"log": "AA", "drops": False, "late": True},
        "one",
    ),
    Mutant(
        "outcome_by_position",
        "4.4 landed or not is judged by the position alone: held by the compare-and-set",
        (
            (
                OUTCOME,
                "    if any(commit_id in logged_ids for commit_id in claim.offers):\n",
                "    if position == Position(claim.epoch, claim.new):\n",
            ),
        ),
        NOTHING,
        {"log": "AA", "drops": False},
    ),
    Mutant(
        "lost_is_refused",
        "4.4 a lost answer taken as refused, all dropped: held by the compare-and-set",
        (NEVER_LANDED,),
        NOTHING,
        {"log": "AA", "drops": False},
    ),
    Mutant(
        "keeps_after_freeze",
        "4.4 refused: only the claim's files dropped, what came after the freeze is kept",
        (KEEP_AFTER_FREEZE,),
        LOSS,
        {"log": "AAA", "drops": False},
    ),
    Mutant(
        "anchor_overwritten",
        "4.7 an existing anchor is overwritten",
        (
            (
                WORLD,
                "        if position is not None:\n            return tables\n",
                "        if False:\n            return tables\n",
            ),
        ),
        ANY,
        {"log": "C", "drops": False},
    ),
    Mutant(
        "letters_not_last",
        "5.3 the dead letters are not sealed last: nobody can go on (Stop)",
        (LETTERS_NOT_LAST,),
        frozenset({"STOP"}),
        {},
        "switch",
    ),
    Mutant(
        "letters_not_last_no_stop",
        "5.3 the same, and a table behind the dead letters' epoch is taken as it is",
        (LETTERS_NOT_LAST, NO_BEHIND_STOP, OWN_EPOCHS),
        SWITCHED,
        {},
        "switch",
    ),
    Mutant(
        "letters_read_first",
        "5.3 the dead letters are not read last, one type is added",
        (LETTERS_READ_FIRST,),
        SWITCHED,
        ADDS_TYPE | {"news": 2},
        "switch",
    ),
    Mutant(
        "letters_read_first_same_types",
        "5.3 the same, the types stay: held by the exit of 5.3a and the compare-and-set",
        (LETTERS_READ_FIRST,),
        NOTHING,
        {"olds": 2},
        "switch",
    ),
    Mutant(
        "letters_read_first_no_exit",
        "5.3 the dead letters are read first and writers start in each table's own epoch",
        (LETTERS_READ_FIRST, NO_EXIT, OWN_EPOCHS),
        SWITCHED,
        {},
        "switch",
    ),
    Mutant(
        "seal_blind",
        "5.3 a seal does not compare the position",
        (
            (
                SWITCH,
                "        position, committed = world[0][index]\n"
                "        if position != expected:\n            return None\n        after = ",
                "        position, committed = world[0][index]\n        after = ",
            ),
        ),
        SWITCHED,
        {},
        "switch",
    ),
    Mutant(
        "seal_compares_epoch",
        "5.3 a seal compares the epoch, not the position",
        (
            (
                SWITCH,
                "        if position != expected:\n            return None\n        after = ",
                "        if position and expected and position[0] != expected[0]:\n"
                "            return None\n        after = ",
            ),
        ),
        SWITCHED,
        {},
        "switch",
    ),
    Mutant(
        "commit_compares_epoch",
        "5.3 a drain or commit compares the epoch, not the position",
        (
            (
                SWITCH,
                "        if position != expected:\n            return None\n        route = ",
                "        if position and expected and position[0] != expected[0]:\n"
                "            return None\n        route = ",
            ),
        ),
        SWITCHED,
        {},
        "switch",
    ),
    Mutant(
        "drains_past_through",
        "5.3 a drain goes further than the highest position read",
        (
            (
                SWITCH,
                "            for to in range(at[1] + 1, through + 1):\n",
                "            for to in range(at[1] + 1, len(self.routes[config])):\n",
            ),
        ),
        SWITCHED,
        {},
        "switch",
    ),
    Mutant(
        "drains_under_own",
        "5.3 a drain under the own configuration, not the one in force",
        ((SWITCH, "(at[0], to), in_force)", "(at[0], to), config)"),),
        SWITCHED,
        {},
        "switch",
    ),
    Mutant(
        "no_exit_alone",
        "5.3a no exit when a table's epoch exceeds d: held by Agree's one epoch for all writers",
        (NO_EXIT,),
        NOTHING,
        {"olds": 2},
        "switch",
    ),
    Mutant(
        "no_exit",
        "5.3a no exit when a table's epoch exceeds d, writers start in each table's own epoch",
        (NO_EXIT, OWN_EPOCHS),
        SWITCHED,
        {},
        "switch",
    ),
    Mutant(
        "own_epochs_alone",
        "5.3a writers start in each table's own epoch, the exit in force",
        (OWN_EPOCHS,),
        NOTHING,
        {"olds": 2},
        "switch",
    ),
    Mutant(
        "drains_in_force_only",
        "5.3c an added type that an earlier attempt has sealed is not drained again",
        ((SWITCH, "name in {*self.active[in_force], *self.active[NEW]}", "name in self.active[in_force]"),),
        SWITCHED,
        ADDS_TYPE,
        "switch",
    ),
    Mutant(
        "met_seal_ignores_list",
        "4.7, 5.3c the dead letters are sealed although they list a table that the switch has not read",
        ((MET, "if index == self.letters and world[2] != more[0]:", "if False:"),),
        UNFIT,
        {"takes": True, "new": "AC"},
        "met",
    ),
    Mutant(
        "met_not_listed",
        "4.7 a new type is written before the dead letters list its table",
        ((MET, "(ANCHORED, *position), *known", "position, *known"),),
        UNFIT,
        {},
        "met",
    ),
    Mutant(
        "met_listed_blindly",
        "4.7 a new type's table is listed whatever the epoch of the dead letters",
        ((MET, "        if self.letters_epoch(world) != known[self.letters][0]:\n", "        if False:\n"),),
        UNFIT,
        {},
        "met",
    ),
    Mutant(
        "met_not_listed_at_start",
        "5.1 a task that starts runs with a table that the dead letters do not list",
        ((MET, "if isinstance(found, crosscheck.Agree) and exists and not listed:", "if False:"),),
        UNFIT,
        {},
        "met",
    ),
    Mutant(
        "met_table_missed",
        "5.1 a table that came after the listing is not read, though the dead letters list it",
        ((MET, "if world[2] and not self._of(seen, self.met)[1][0]:", "if False:"),),
        UNFIT,
        {"takes": True, "new": "AC"},
        "met",
    ),
    Mutant(
        "met_passed",
        "ANCHOR positions pass a record of a type that has been met and is not anchored",
        ((MET, "                continue  # ANCHOR", "                pass  # ANCHOR"),),
        UNFIT,
        {},
        "met",
    ),
    Mutant(
        "met_left_behind_stops",
        "5.3 an anchor that came too late, in a closed epoch, counts as a position",
        ((CROSSCHECK, "return self.unused and self.position", "return False and self.position"),),
        frozenset({"STOP"}),
        {"takes": True, "new": "AC"},
        "met",
    ),
    Mutant(
        "met_left_behind_used",
        "5.3 a position in a closed epoch counts as an anchor that came too late, used or not: held by the list",
        ((CROSSCHECK, "return self.unused and self.position is not None", "return self.position is not None"),),
        NOTHING,
        {"takes": True, "new": "AC"},
        "met",
    ),
    Mutant(
        "pair_compares_one",
        "FENCE a commit compares the position of one of its two partitions",
        ((PAIR, "for p, expected, *_ in claims):", "for p, expected, *_ in claims[:1]):"),),
        ANY,
        {},
        "pair",
    ),
    Mutant(
        "pair_offers_frontier",
        "4.1, 4.3 what is offered again claims the frontier of now with the files of then",
        (
            (
                PAIR,
                "frozen = freeze(real[p], 0) if p in fresh else real[p]\n",
                "frozen = freeze(real[p], 0) if p in fresh else replace(\n"
                "                    real[p], claim=replace(real[p].claim, new=real[p].frontier)\n"
                "                )\n",
            ),
        ),
        LOSS,
        {"logs": ("AA", ".")},
        "pair",
    ),
    Mutant(
        "pair_refused_keeps",
        "4.3 a refused partition keeps what it has staged, and no check before the commit",
        (REFUSED_KEEPS, NO_RANGE_CHECK),
        frozenset({"ONCE"}),
        {"logs": ("AA", "A")},
        "pair",
    ),
    Mutant(
        "pair_refused_keeps_alone",
        "4.3 the same: held by the check before the commit",
        (REFUSED_KEEPS,),
        NOTHING,
        {"logs": ("AA", "A")},
        "pair",
    ),
    Mutant(
        "pair_rest_released",
        "4.1 resolved for one partition taken as resolved for both (freeze moves the files out of staged)",
        (FREEZE_TAKES_STAGED, REST_RELEASED),
        LOSS,
        {},
        "pair",
    ),
    Mutant(
        "pair_rest_released_alone",
        "4.1 the same, but claimed files stay in staged: held by the compare-and-set",
        (REST_RELEASED,),
        NOTHING,
        {"late": True},
        "pair",
    ),
    Mutant(
        "pair_landed_by_position",
        "4.4 landed for each partition by its position, not for all by the commit id: held by the compare-and-set",
        (
            (
                OUTCOME,
                "    if any(commit_id in logged_ids for commit_id in claim.offers):\n",
                "    if position == Position(claim.epoch, claim.new):\n",
            ),
        ),
        NOTHING,
        {"logs": ("AA", "A")},
        "pair",
    ),
    Mutant(
        "pair_landed_past",
        "4.4 landed, the position is past ours, and nothing is dropped: held by the compare-and-set",
        (
            (
                PAIR,
                "if isinstance(found, outcome.Landed) and found.position == Position(0, real.claim.new):",
                "if isinstance(found, outcome.Landed):",
            ),
        ),
        NOTHING,
        {"logs": ("AA", "A")},
        "pair",
    ),
    Mutant(
        "pair_recovers_at_once",
        "4.1 a partition is read again while a commit that names it is under way: held by the compare-and-set",
        ((PAIR, "if writer is None and process[1] is None:", "if writer is None:"),),
        NOTHING,
        {"logs": ("A", "."), "revokes": True},
        "pair",
    ),
    Mutant(
        "sweep_not_in_delta",
        "6 what no commit names is deleted, wherever the position is",
        (NOT_IN_DELTA,),
        frozenset({"TEMP"}),
        {"records": 1},
        "sweep",
    ),
    Mutant(
        "sweep_snapshot_first",
        "6 the snapshot is taken before the listing: held by the test of the position",
        (SNAPSHOT_FIRST,),
        NOTHING,
        {"closes": True},
        "sweep",
    ),
    Mutant(
        "sweep_live",
        "6 the position alone decides, live files are not looked at",
        ((SWEEP, "[_path(file) for file in (*live, *removed)]", "[_path(file) for file in removed]"),),
        frozenset({"TEMP"}),
        {"records": 1},
        "sweep",
    ),
    Mutant(
        "sweep_tombstones",
        "6 tombstones are not looked at, and RESTORE brings the rows back",
        ((SWEEP, "[_path(file) for file in (*live, *removed)]", "[_path(file) for file in live]"),),
        frozenset({"TEMP"}),
        {"records": 1, "writers": 1, "steps": 2},
        "sweep",
    ),
    Mutant(
        "sweep_any_epoch",
        "6 the position of another epoch than that in the file's name",
        ((SWEEPING, "AppId(name.app, name.tp, name.epoch)", "AppId(name.app, name.tp, 0)"),),
        frozenset({"TEMP"}),
        {"writers": 1, "closes": True},
        "sweep",
    ),
    Mutant(
        "refused_deletes",
        "TEMP a refused commit deletes its files, and a lost answer is taken as refused",
        (DELETES_REFUSED, NEVER_LANDED),
        frozenset({"TEMP"}),
        {"records": 1},
        "sweep",
    ),
    Mutant(
        "refused_deletes_alone",
        "TEMP a refused commit deletes its files: held by the outcome of 4.4",
        (DELETES_REFUSED,),
        NOTHING,
        {"attempts": 2},
        "sweep",
    ),
    Mutant(
        "restore_unknown",
        "4.5, 5.1 RESTORE is not among the operations that stop",
        ((TABLE_LOG, 'frozenset({"RESTORE", ', "frozenset({"),),
        LOSS,
        {"log": "A"},
        "restore",
    ),
    Mutant(
        "restore_not_looked_after",
        "4.5 what came between is not looked at after a landing",
        ((RESTORE, "if self.rewinds_between(after[index], checked, landed):", "if False:"),),
        LOSS,
        {"log": "AAA"},
        "restore",
    ),
    Mutant(
        "restore_checked_through_own",
        "4.5 checked_through says the own version: a crash before the look hides what came between",
        ((RESTORE, "{own: new}), files, checked, ", "{own: new}), files, len(table), "),),
        LOSS,
        {},
        "restore",
    ),
    Mutant(
        "repair_same_app_id",
        "7 a position is moved back under the same appId (ABA)",
        (
            (
                REWIND,
                "    epoch = next_epoch(positions[letters], positions, targets)\n",
                "    epoch = positions[letters].epoch\n",
            ),
            (RESTORE, "if old is not new and self.live(new) < self.live(old):", "if False:"),
        ),
        ROWS,
        {"log": "AA", "repairs": 2},
        "restore",
    ),
    Mutant(
        "repair_no_tombstone",
        "7 the old appId does not become a tombstone: a zombie goes on under it",
        (
            (
                REWIND,
                "            versions[str(app_id)] = TOMBSTONE\n            versions[str(AppId",
                "            versions[str(AppId",
            ),
        ),
        ROWS,
        {"log": "AD"},
        "restore",
    ),
    Mutant(
        "repair_keeps_rows",
        "7 live files above the new position stay",
        ((REWIND, "Position(epoch, targets[name]), cuts=True)", "Position(epoch, targets[name]))"),),
        frozenset({"ONCE"}),
        {},
        "restore",
    ),
    Mutant(
        "repair_keeps_mixed_rows",
        "7 a file with rows on both sides is left as it is",
        ((RESTORE, "        if mixed:\n", "        if False:\n"),),
        frozenset({"ONCE"}),
        {"restores": 2, "still": "D"},
        "restore",
    ),
    Mutant(
        "repair_blind",
        "7 a repair does not compare the position",
        ((RESTORE, "old is None or (_app_id(old.epoch), old.offset) not in table[-1][1] or", "old is None or"),),
        ANY,
        {},
        "restore",
    ),
    Mutant(
        "repair_letters_first",
        "7, 5.3a the dead letters are moved first: nobody can go on when the repair is interrupted",
        ((RESTORE, "sorted(set(moves) - {DEAD_LETTERS}) or sorted(moves)", "sorted(moves, reverse=True)"),),
        frozenset({"STOP"}),
        {"log": "D", "restorable": "D"},
        "restore",
    ),
    Mutant(
        "repair_letters_with_the_rest",
        "7 the dead letters are moved last, by the same plan as the rest: held by what each move compares",
        ((RESTORE, "sorted(set(moves) - {DEAD_LETTERS}) or sorted(moves)", "sorted(moves)"),),
        NOTHING,
        {"log": "AD", "restorable": "AD"},
        "restore",
    ),
    Mutant(
        "repair_moves_losers",
        "7 a table that was hit and has lost nothing is left where it is",
        (
            (
                RESTORE,
                "for name, table in tables.items() if self.taken_back(table)}",
                "for name, table in tables.items()\n"
                "                   if self.taken_back(table) and self.held(table) < positions[name].offset}",
            ),
        ),
        UNFIT,
        TWICE,
        "restore",
    ),
    Mutant(
        "repair_moves_one",
        "7, 5.3a only the table that was taken back goes to the next epoch",
        ((REWIND, "elif old is not None and old.epoch < epoch and name in active:", "elif False:"),),
        frozenset({"STOP"}),
        {"log": "A"},
        "restore",
    ),
    Mutant(
        "repair_checked_through_own",
        "4.5, 7 a repair's checked_through says its own version: a RESTORE just before it is not seen",
        ((RESTORE, "(REWIND, txns, left, checked, epochs)", "(REWIND, txns, left, len(table), epochs)"),),
        ROWS,
        TWICE,
        "restore",
    ),
    Mutant(
        "repair_keeps_condemned",
        "7, 3.7 a record whose row was taken away stays condemned: every task skips it",
        ((REWIND, "move.cuts and app_id.epoch > new.offset\n", "False\n"),),
        LOSS,
        {"log": "X", "restorable": "D"},
        "restore",
    ),
    Mutant(
        "repair_ignores_condemning",
        "7, 3.7 a repair does not compare what is condemned, and a row comes in between: held by the look for it",
        ((RESTORE, "if self.settled(table) != self.settled(table[: checked + 1]):", "if False:"),),
        NOTHING,
        {"log": "X", "restorable": "D", "restores": 2},
        "restore",
    ),
    Mutant(
        "condemn_looks_nowhere",
        "3.7 a record gets a dead-letter row although a table that has passed it may hold it",
        ((CONDEMNING, "position is not None and position.offset >= offset", "False"),),
        frozenset({"ONCE"}),
        {},
        "condemn",
    ),
    Mutant(
        "condemn_waits_for_nobody",
        "3.7 a record gets a dead-letter row while a table may still get it of who has read it before",
        ((CONDEMNING, "position is not None and position.offset < offset", "False"),),
        frozenset({"ONCE"}),
        {"tasks": 2, "repairs": 0},
        "condemn",
    ),
    Mutant(
        "condemn_writes_no_position",
        "3.7, 7 what says where a spared record is leaves the dead letters' position alone: a repair does not notice",
        (
            (
                CONDEMNING,
                "return {str(listed): letters.epoch, str(AppId(app, tp, letters.epoch)): letters.offset}",
                "return {str(listed): letters.epoch}",
            ),
        ),
        LOSS,
        {"tasks": 2, "back": "D"},
        "condemn",
    ),
    Mutant(
        "condemn_for_lost_executors",
        "3.7 executors that are lost count against the record that they read",
        ((BISECTION, "counted.failed(plans, False, error)", "counted.failed(plans, True, error)"),),
        frozenset({"ROUTE"}),
        {},
        "condemn",
    ),
    Mutant(
        "condemn_compares_nothing",
        "3.7 a commit does not compare whether a record is still only spared: two tasks write the row",
        ((CONDEMN, " or not self.listed(world[D])[1]:", ":"),),
        frozenset({"ONCE"}),
        {"tasks": 2},
        "condemn",
    ),
    Mutant(
        "condemn_meets_blindly",
        "3.7, 4.7 a type that is met gets rows without a look at the dead letters once its table is there",
        ((CONDEMN, "d != memory[1][0] or memory", "memory"),),
        frozenset({"ONCE"}),
        {"tasks": 2, "repairs": 0, "met": True},
        "condemn",
    ),
    Mutant(
        "repair_keeps_held",
        "7, 3.7 a record stays condemned whose row went away with the table that held it",
        ((REWIND, 'app_id.kind == "held" or ', ""),),
        LOSS,
        {},
        "condemn",
    ),
    Mutant(
        "repair_reads_condemned_again",
        "7, 3.7 a record whose dead letter was taken away is read again, though its own table has passed it without it",
        ((REWIND, "if loses_row and not rebased:", "if False:"),),
        LOSS,
        {"back": "D", "heals": True},
        "condemn",
    ),
    Mutant(
        "repair_believes_positions",
        "7 a RESTORE to a version after an accident: its position is taken for what it holds",
        ((RESTORE, "min([self.held(then), ", "min([self.live(then).offset, "),),
        ROWS,
        {"restores": 2},
        "restore",
    ),
    Mutant(
        "repair_believes_forward",
        "7 a RESTORE forward: rows beyond the position of then are taken as there once",
        ((REWIND, "through = min(one.through, one.was)", "through = one.through"),),
        frozenset({"ONCE"}),
        TWICE,
        "restore",
    ),
    Mutant(
        "commit_registers_no_read",
        "FENCE a commit does not tell Delta which positions it depends on",
        ((COMMIT, "expected=tuple(_app_id(self._lake.app, claim) for claim in offers),", "expected=(),"),),
        frozenset({"ONCE"}),
        {"faults": 0, "lives": 1},
        "wal",
    ),
    Mutant(
        "commit_compares_nothing",
        "FENCE a commit does not compare the position that it found with the one it expects",
        ((COMMIT, "            if position != Position(claim.epoch, claim.expected):\n", "            if False:\n"),),
        frozenset({"ONCE"}),
        {"faults": 0, "lives": 1},
        "wal",
    ),
    Mutant(
        "commit_before_started",
        "ORDER a commit is made without an intent in the log",
        ((JOURNAL, "                self.wal.start(intents)\n", "                pass\n"),),
        frozenset({"ORDER"}),
        {"processes": 1, "faults": 0},
        "wal",
    ),
    Mutant(
        "started_unanswered_commits",
        "ORDER a commit is made although the log, which is required, did not answer",
        ((JOURNAL, "and self.required:\n            if tried:", "and False:\n            if tried:"),),
        frozenset({"ORDER"}),
        {"processes": 1},
        "wal",
    ),
    Mutant(
        "group_offset_before_completed",
        "ORDER the group offset is sent while a completion is owed",
        ((KEEPER, "if self.journal.required else set()", "if False else set()"),),
        frozenset({"ORDER"}),
        {"processes": 1},
        "wal",
    ),
    Mutant(
        "never_completed",
        "ORDER a commit that landed is not completed in the log",
        ((JOURNAL, "        if not landings and not dead:\n            return\n", "        return\n"),),
        frozenset({"ORDER"}),
        {"processes": 1, "faults": 0},
        "wal",
    ),
    Mutant(
        "intent_dead_too_early",
        "6 another's intent is called failed while its commit may still land",
        ((RULING, "    if at.offset < one.last:\n", "    if False:\n"),),
        frozenset({"ORDER"}),
        {"faults": 0},
        "wal",
    ),
    Mutant(
        "intent_not_looked_for",
        "5.1 another's commit is not looked for in the table's log",
        ((RULING, "if one.state is IntentState.STARTED)\n\n\ndef to_count", "if False)\n\n\ndef to_count"),),
        frozenset({"ORDER"}),
        {"faults": 0},
        "wal",
    ),
    Mutant(
        "evolved_refuses_loss",
        "4.10 what does not fit an evolved column is refused: a record that the dead letters have passed as good",
        (EVOLVED_REFUSES,),
        LOSS,
        {"ahead": "D"},
        "evolve",
    ),
    Mutant(
        "evolved_refuses_duplicate",
        "4.10 the same, the record's table has passed it as good",
        (EVOLVED_REFUSES,),
        frozenset({"ONCE"}),
        {"logs": ("t", "ia"), "ahead": "A", "again_max": 0},
        "evolve",
    ),
    Mutant(
        "again_moves_frontier",
        "3.1 the frontier of a type that is to be read again moves",
        (
            (
                WRITERS,
                '            discarded[name] = refusal or "it has no position yet"\n',
                '            discarded[name] = refusal or "it has no position yet"\n'
                "            if writer is not None and name in fragment.again:\n"
                "                after[key] = replace(writer, frontier=max(writer.frontier, plan.end - 1))\n",
            ),
        ),
        LOSS,
        {},
        "evolve",
    ),
    Mutant(
        "never_again",
        "3.1 a fragment is integrated although it was read without the columns: values in `_rescued`, no record moves",
        ((WRITERS, "{**fragment.again, **fragment.unwritten}", "fragment.unwritten"),),
        NOTHING,
        {"logs": ("t", "i")},
        "evolve",
    ),
    Mutant(
        "evolving_compares_nothing",
        "FENCE a commit that adds columns does not compare the position",
        (
            (
                EVOLVE,
                "        if positions[p] != expected:\n",
                "        if positions[p] != expected and (base is None or base[0] == base[1]):\n",
            ),
        ),
        ANY,
        {"logs": ("tj", ""), "tasks": "00"},
        "evolve",
    ),
    Mutant(
        "evolving_from_memory",
        "4.10 the schema that a commit writes is made from what the task knows, not from its snapshot",
        ((EVOLVE, "self.adds(base, writer[3][2])", "self.adds(process[3], writer[3][2])"),),
        COLUMNS,
        {"logs": ("j", "i")},
        "evolve",
    ),
    Mutant(
        "promoting_from_memory",
        "4.10 the wider type is written over what the task has planned, not over the table as it is",
        ((EVOLVE, "promoted(self.schemas[tables[A][2]],", "promoted(self.schemas[process[3]],"),),
        COLUMNS,
        {"logs": ("j", "i"), "promotes": True},
        "evolve",
    ),
    Mutant(
        "promoting_over_another",
        "4.3 a commit that adds columns is not refused by the wider type that landed since its snapshot",
        ((EVOLVE, "            if columns[0] != base[0]:\n", "            if False:\n"),),
        COLUMNS,
        {"logs": ("j", ""), "promotes": True},
        "evolve",
    ),
    Mutant(
        "evolving_over_another",
        "4.3 a metadata change that landed since the snapshot does not refuse a commit that adds columns",
        ((EVOLVE, "            if columns[0] != base[0]:\n", "            if False:\n"),),
        COLUMNS,
        {"logs": ("j", "i")},
        "evolve",
    ),
    Mutant(
        "evolving_changes_a_kind",
        "4.2 a file whose column is of another kind than the table's is committed",
        ((EVOLVED, "        if have != want:\n            raise", "        if False:\n            raise"),),
        COLUMNS,
        {},
        "evolve",
    ),
    Mutant(
        "evolving_takes_texts_for_json",
        "4.2 a text and JSON as text are taken for one type",
        ((EVOLVED, '    if have.get("metadata", {}).get(JSON_TEXT) != want', "    if False and want"),),
        COLUMNS,
        {"logs": ("ti", ""), "tasks": "0", "forgets": True},
        "evolve",
    ),
    Mutant(
        "evolving_forgets_notes",
        "4.10 what the files' schema notes of a column replaces what the table's does",
        ((EVOLVED, '{**one, "type": _as_set(one["type"])}', '_as_set(one["type"])'),),
        COLUMNS,
        {"logs": ("i", "ij")},
        "evolve",
    ),
    Mutant(
        "evolving_files_apart",
        "4.2 each file of a commit is compared with the table, not with the files before it",
        (
            (
                EVOLVED,
                "        schema = union(schema, columns)\n",
                "        fits = union(view.schema_json, columns) is not None\n"
                "        schema = (union(schema, columns) or schema) if fits else None\n",
            ),
        ),
        COLUMNS,
        {"logs": ("ti", ""), "tasks": "0", "forgets": True},
        "evolve",
    ),
    Mutant(
        "missing_is_passed",
        "3.8 a fragment does not end before the record whose id nothing is decided of",
        ((SCHEMA, "end = next((at for at, table in tables.items() if table is None), plan.end)", "end = plan.end"),),
        LOSS,
        {},
        "schema",
    ),
    Mutant(
        "missing_end_untold",
        "3.8 the manifest does not tell where a fragment ended: the frontier moves to the end of the plan",
        ((SCHEMA, "self.real_plan(round_, round_[2])", "self.real_plan(round_, round_[1])"),),
        LOSS,
        {},
        "schema",
    ),
    Mutant(
        "behind_missing_integrated",
        "3.8, 3.1 a round that was planned behind one that ended early is integrated",
        (NO_BOUND_CHECK,),
        LOSS,
        {"log": "12", "tasks": 1, "rounds": 2},
        "schema",
    ),
    Mutant(
        "nothing_moves_nothing",
        "3.8 a fragment that ended at its first record is integrated: no frontier goes back anyway",
        ((WRITERS, "    if plan.end <= plan.start:", "    if False:"),),
        NOTHING,
        {},
        "schema",
    ),
    Mutant(
        "missing_is_a_letter",
        "3.8 a record whose id nothing is decided of is a dead letter at once, as in other exporters",
        (
            (
                SCHEMA,
                "self.table_of(at, known) for at",
                "D if self.table_of(at, known) is None else self.table_of(at, known) for at",
            ),
        ),
        ANY,
        {"log": "1"},
        "schema",
    ),
    Mutant(
        "decided_in_memory",
        "3.8 what is decided of an id is remembered by the task, and not recorded",
        ((SCHEMA, "number), after\n\n    def knowing", "number), world\n\n    def knowing"),),
        ANY,
        {"log": "1", "tasks": 1},
        "schema",
    ),
    Mutant(
        "unknown_is_extended",
        "3.8 `unknown` is extended in place to more offsets, past a text that is recorded meanwhile",
        (
            (
                SCHEMA,
                "        if len(there) > file:\n",
                "        if file and isinstance(there[0], int) and isinstance(says, int):\n"
                "            there = (max(there[0], says), *there[1:])\n"
                "            decided = (*world[2][:number], there, *world[2][number + 1 :])\n"
                "            after = (*world[:2], decided, *world[3:])\n"
                '            return "extends it", self.knowing(process, after, number), after\n'
                "        if len(there) > file:\n",
            ),
        ),
        ANY,
        {},
        "schema",
    ),
    Mutant(
        "decision_overwritten",
        "3.8 a decision is written without a look whether the file is there",
        (
            (SCHEMA, "        if len(there) > file:\n", "        if False:\n"),
            (SCHEMA, "(*there, says), *world", "(*there[:file], says), *world"),
        ),
        ANY,
        {"log": "1"},
        "schema",
    ),
    Mutant(
        "text_overwritten",
        "3.8 the same with another text, of a registry that was wiped and filled anew: what one read as good is bad",
        (
            (SCHEMA, "        if len(there) > file:\n", "        if False:\n"),
            (SCHEMA, "(*there, says), *world", "(*there[:file], says), *world"),
            (SCHEMA, "says = world[1][number] or world[0] - 1\n", "says = world[1][number] or 'g'\n"),
        ),
        ANY,
        {"log": "1", "texts": "gb", "wiped": True},
        "schema",
    ),
    Mutant(
        "text_speaks_of_all",
        "3.8 the text counts, whatever was decided before it",
        (
            (
                SCHEMAS,
                "        for decision in self.decisions.get(schema_id, ()):\n            if isinstance",
                "        for decision in reversed(self.decisions.get(schema_id, ())):\n            if isinstance",
            ),
        ),
        ANY,
        {},
        "schema",
    ),
    Mutant(
        "replaced_runs_on",
        "ROUTE, 5.3b a task whose configuration was replaced runs on under it",
        ((CROSSCHECK, "    if in_force == own:\n", "    if own in history.values():\n"),),
        SWITCHED,
        {},
        "switch",
    ),
    Mutant(
        "names_from_the_left",
        "NAMES a file's name is read from the left, so that a topic's dots end its name",
        ((NAMES, '.rsplit(".", 4) if', '.split(".", 4) if'),),
        frozenset({"NAMES"}),
        {"test": "test_every_legal_file_name_parses_back"},
        "names",
    ),
    Mutant(
        "names_not_escaped",
        "NAMES what a folder cannot hold is left out of its name",
        ((NAMES, 'else f"~{byte:02X}" for', 'else "_" for'),),
        frozenset({"NAMES"}),
        {"test": "test_every_legal_event_type_comes_back_from_its_folder"},
        "names",
    ),
    Mutant(
        "reading_survives_its_ownership",
        "5.3 what a reading found counts under a later ownership of the partition",
        (READING_SURVIVES, ASKED_AGAIN_COUNTS),
        frozenset({"ONCE"}),
        {},
        "reading",
    ),
    Mutant(
        "reading_survives_alone",
        "5.3 a reading outlives its ownership, but a partition that waits for the next one is left out of it",
        (READING_SURVIVES,),
        NOTHING,
        {},
        "reading",
    ),
    Mutant(
        "reading_asked_again_alone",
        "5.3 a reading that was asked for again counts, but ends with its ownership",
        (ASKED_AGAIN_COUNTS,),
        NOTHING,
        {},
        "reading",
    ),
    Mutant(
        "lease_from_the_answer",
        "8 an owner counts its lease from the answer to its renewal, not from before it was sent",
        (
            (LEASE, "self._wal.renew(held.lease), began)", "self._wal.renew(held.lease), self._clock())"),
            (LEASE, "ripe, self._routing), began)", "ripe, self._routing), self._clock())"),
        ),
        frozenset({"LEASE"}),
        {},
        "lease",
    ),
    Mutant(
        "lease_watched_from_the_start",
        "8 a challenger does not begin to wait anew when the owner has renewed",
        ((LEASES, "self.since if same else now", "self.since"),),
        frozenset({"LEASE"}),
        {},
        "lease",
    ),
    Mutant(
        "lease_not_waited_for",
        "8 a challenger takes a lease that it has just seen",
        ((LEASES, "return self.lease.released or now - self.since >= lease_secs", "return True"),),
        frozenset({"LEASE"}),
        {},
        "lease",
    ),
    Mutant(
        "cursor_of_another_version",
        "9.1 a run takes the rows of one version of its source and the position of a later one",
        (
            (DERIVE, '"reads its table", (JOB, anew, target,', '"reads its table", (JOB, anew, (*target, source),'),
            (DERIVE, "in self.taken(source, since, until))", "in self.taken(known[2], since, until))"),
        ),
        ROWS,
        {"log": "a"},
        "derive",
    ),
    Mutant(
        "cursor_ignored",
        "9.1 a run takes the offsets from the start whatever its cursor is",
        (CURSOR_IGNORED,),
        ROWS,
        {"jobs": 1},
        "derive",
    ),
    Mutant(
        "former_topic_taken_again",
        "9.1 a slice of offsets is taken of all topics of the name that there have been",
        ((CURSORS, "yield Slice(tp, after, through, first, before)", "yield Slice(tp, after, through)"),),
        ROWS,
        {"log": "a", "jobs": 1, "rebases": 1},
        "derive",
    ),
    Mutant(
        "run_not_compared",
        "9.2 a job's commit does not compare the job's run",
        (FENCES_NO_RUN,),
        ROWS,
        {"log": "a"},
        "derive",
    ),
    Mutant(
        "replays_not_taken",
        "9.3 rows that a replay puts at or below the cursor are not looked for",
        ((CURSORS, "if last > taken and tp in since.positions}", "if False}"),),
        ROWS,
        {"log": "X", "jobs": 1},
        "derive",
    ),
    Mutant(
        "setbacks_ignored",
        "9.3 a job goes on whatever epochs its source has begun",
        (SETBACKS_IGNORED,),
        ROWS,
        {"jobs": 1, "restores": 1},
        "derive",
    ),
    Mutant(
        "setbacks_by_the_newest_epoch",
        "9.3 of the epochs since the cursor only the last one is looked at",
        ((CURSORS, "through = min(begun, default=taken.offset)", "through = [*begun, taken.offset][len(begun) - 1]"),),
        ROWS,
        {"jobs": 1, "restores": 2},
        "derive",
    ),
    Mutant(
        "setbacks_of_another_version",
        "9.3 what the source took back is looked at before the version is pinned whose rows are taken",
        (
            (
                DERIVE,
                '            yield "reads its table", (JOB',
                "            if self.stops(source, NO_TABLE if anew else target):\n                return\n"
                '            yield "reads its table", (JOB',
            ),
            (DERIVE, "        if why:\n", "        if False:\n"),
        ),
        ROWS,
        {"log": "aaa", "jobs": 1, "restores": 1},
        "derive",
    ),
    Mutant(
        "source_made_anew",
        "9.3 a job does not compare the id of its source's table",
        ((DERIVE, "since.table_id != self.view(source).table_id", "False"),),
        ROWS,
        {"log": "a", "jobs": 1, "drops": 1},
        "derive",
    ),
    Mutant(
        "former_cursors_stay",
        "9.3 a job that begins anew leaves the cursors of before beside its own",
        ((DERIVE, "said |= superseded(dict(known[0]), said, APP, JOB_NAME)", "pass"),),
        frozenset({"STOP"}),
        {"log": "aa", "jobs": 1, "drops": 1},
        "derive",
    ),
    Mutant(
        "accidents_ignored_alone",
        "9.3 a job goes on while rows of its source are missing: held by the epoch that the repair begins",
        ((DERIVE, "MISSING if source[5] is not None else ", ""),),
        NOTHING,
        {"jobs": 1, "restores": 1},
        "derive",
    ),
    Mutant(
        "offered_again_unseen",
        "9.4 a commit whose answer was lost is offered again without a look at the log",
        (
            (
                DERIVE,
                '        return "looks, and ends", START, world\n',
                "        runs = dict(world[1][0]).get(run_id(APP, JOB_NAME), 0)\n"
                "        said = {**dict(process[3][1]), run_id(APP, JOB_NAME): runs + 1}\n"
                "        offer = (runs, tuple(sorted(said.items())), *process[3][2:])\n"
                '        return "offers it again", (*process[:3], offer, ""), world\n',
            ),
        ),
        ROWS,
        {"log": "a", "jobs": 1},
        "derive",
    ),
    Mutant(
        "mirror_by_arrival",
        "9.5 the row of a key is the one that came last, whatever its order",
        ((MIRROR, "            if old is None or _by_order(row) > _by_order(old):\n", "            if True:\n"),),
        NEWEST,
        {"log": ("a1", "a0"), "jobs": 1},
        "mirror",
    ),
    Mutant(
        "mirror_forgets_deletes",
        "9.5 a deleted key has no row, so that a late update brings it back",
        (
            (
                MIRROR,
                "        return tuple(newest[key] for key in sorted(newest))\n",
                "        return tuple(newest[key] for key in sorted(newest) if not newest[key][3])\n",
            ),
        ),
        NEWEST,
        {"log": ("a2-", "a1"), "jobs": 1},
        "mirror",
    ),
    Mutant(
        "mirror_forgets_what_was_silent",
        "9.5 a row writes the columns that its source does not have yet, though it says that they were not sent",
        (
            (
                MIRROR,
                "        made = [self.row_of(row) for row in rows]\n",
                "        made = [self.row_of(row) for row in rows]\n"
                "        if not any(one[4] and one[4][1] for one in (*there, *made)):\n"
                "            made = [(*one[:4], (one[1:3], None)) for one in made]\n",
            ),
        ),
        NEWEST,
        {"log": ("a2?", "a1+"), "jobs": 1},
        "mirror",
    ),
    Mutant(
        "mirror_deletes_write_nothing",
        "9.5 a delete lets be what its key had, and a later row that is silent of it brings it back",
        ((MIRROR, 'None if record.endswith("?") else ', 'None if record.endswith(("?", "-")) else '),),
        NEWEST,
        {"log": ("a1+", "a2-", "a3?"), "jobs": 1},
        "mirror",
    ),
    Mutant(
        "mirror_purges_at_once",
        "9.5 a deleted row is purged though an older row of its key may still come",
        ((MIRROR, "if row[3] and not self.may_be_late(source, row)", "if row[3]"),),
        NEWEST,
        {"log": ("a2-", "a1"), "jobs": 1, "purges": 1},
        "mirror",
    ),
    Mutant(
        "mirror_goes_on",
        "9.5 a mirror goes on whatever epochs its source has begun",
        (SETBACKS_IGNORED,),
        NEWEST,
        {"jobs": 1, "restores": 1},
        "mirror",
    ),
    Mutant(
        "mirror_of_an_older_version",
        "9.5 a MERGE lands whose version of the source is not above the table's: held by the next run",
        ((MIRROR, "if any(version <= txns", "if False and any(version <= txns"),),
        NOTHING,
        {"log": ("a1", "a2"), "restores": 1},
        "mirror",
    ),
    Mutant(
        "mirror_over_another",
        "9.5 a mirror goes on though its last MERGE was made of an older state than it landed on",
        ((MIRROR, 'if dict(target[0]).get(OVER) else ""', 'if False else ""'),),
        NEWEST,
        {"log": ("a1", "b1", "b2"), "restores": 1},
        "mirror",
    ),
    Mutant(
        "mirror_takes_late_rows_of_before",
        "9.5 a row that is older than a truncate counts, where it comes after that",
        ((MIRROR, "tuple(row for row in rows if self.row_of(row)[1] >= order), is_anew", "rows, is_anew"),),
        NEWEST,
        {"log": ("a3", "*2", "b4", "b1", "c1"), "jobs": 1},
        "mirror",
    ),
    Mutant(
        "mirror_keeps_values_of_before",
        "9.5 a value that an older row wrote stays, where a row that is not older was silent of it",
        ((MIRROR, "row[4] if row[4] and row[4][0][0] >= order else None)", "row[4])"),),
        NEWEST,
        {"log": ("a1+", "a3?", "*2", "b4"), "jobs": 1},
        "mirror",
    ),
    Mutant(
        "mirror_is_emptied_once",
        "9.5 of an older run that lands on an emptied mirror nobody takes account",
        ((MIRROR, 'if dict(target[0]).get(OVER) else ""', 'if False else ""'),),
        NEWEST,
        {"log": ("a3", "b1", "*2", "c4"), "jobs": 2},
        "mirror",
    ),
    Mutant(
        "mirror_begins_anew_beside_the_old",
        "9.5 a mirror that begins anew merges into the rows that it has",
        ((DERIVE, "self.put(() if anew else target[1], rows)", "self.put(target[1], rows)"),),
        NEWEST,
        {"jobs": 1, "restores": 1},
        "mirror",
    ),
    Mutant(
        "mirror_takes_rows_again",
        "9.5 a mirror takes all rows in each run: held by the order, in which the newest is the newest again",
        ((DERIVE, "in self.taken(source, since, until))", "in self.taken(source, Cursor(), until))"),),
        NOTHING,
        {"log": ("a2-", "a1", "a3"), "jobs": 1},
        "mirror",
    ),
    Mutant(
        "sent_reads_before_it_fences",
        "9.7 a sender reads how far the topic is before it has fenced others",
        ((SENT, '("fences", "reads how far it is")', '("reads how far it is", "fences")'),),
        frozenset({"ONCE"}),
        {"rows": 1},
        "sent",
    ),
    Mutant(
        "sent_unfenced",
        "9.7 whoever sends under an older producer epoch is heard",
        ((SENT, "return bool(name == world[1][0])", "return bool(world[1][0])"),),
        ROWS,
        {"rows": 1},
        "sent",
    ),
    Mutant(
        "sent_progress_first",
        "9.7 how far a sender is, is told before the transaction commits and outside of it",
        (TOLD_APART,),
        frozenset({"COVER"}),
        {"rows": 1, "senders": 1},
        "sent",
    ),
    Mutant(
        "sent_progress_last",
        "9.7 how far a sender is, is told after the transaction has committed",
        (TOLD_APART, (SENT, '("sends", "tells how far", "commits")', '("sends", "commits", "tells how far")')),
        frozenset({"ONCE"}),
        {"rows": 1, "senders": 1},
        "sent",
    ),
    Mutant(
        "sent_again_unseen",
        "9.7 rows whose commit has no answer are sent again, without asking how far the topic is",
        (
            (
                SENT,
                '        return "ends, and starts again", begun(process[1]), world\n',
                '        return "sends them again", (*process[:5], SENDING[0]), world\n',
            ),
        ),
        frozenset({"ONCE"}),
        {"rows": 1, "senders": 1},
        "sent",
    ),
    Mutant(
        "first_table_only",
        "3.9 a record goes to the first of the tables that it belongs to",
        ((ROUTING, "        return tuple(sorted(found))\n", "        return tuple(sorted(found))[:1]\n"),),
        LOSS,
        {"log": "b"},
        "fan",
    ),
    Mutant(
        "matches_beside_names",
        "3.9 a type with a pattern takes its own name as well",
        ((ROUTING, "if name in self.schemas and name not in self._matching:", "if name in self.schemas:"),),
        ROWS,
        {"log": "n"},
        "fan",
    ),
    Mutant(
        "letter_per_record",
        "3.9 a record that two of its tables cannot have is one dead letter",
        (
            (
                FAN,
                "return [ROW for one in tables if decided.get(one) == LETTER]",
                "return [ROW] * (LETTER in decided.values())",
            ),
        ),
        LOSS,
        {"log": "L"},
        "fan",
    ),
    Mutant(
        "letter_for_all_types",
        "3.9 a record that one of its tables cannot have is a dead letter for all of them",
        ((FAN, "name in tables and decided.get(name) != LETTER", "name in tables and LETTER not in decided.values()"),),
        LOSS,
        {"log": "l"},
        "fan",
    ),
    Mutant(
        "drop_keeps_count",
        "3.9, 3.3 what is dropped stays counted",
        ((WRITERS, "claim=None, oldest_at=0.0, filtered=0)", "claim=None, oldest_at=0.0)"),),
        frozenset({"ONCE"}),
        {"log": "gg", "drops": False},
        "fan_one",
    ),
    Mutant(
        "count_not_frozen",
        "3.9, 4.1 a claim that is offered again counts what was integrated since it was frozen",
        (
            (
                WORLD,
                'replace(real, offers=(*real.offers, f"c{len(real.offers) + 1}"))',
                'replace(real, filtered=writer.filtered, offers=(*real.offers, f"c{len(real.offers) + 1}"))',
            ),
            (
                WORLD,
                "        return _compact(again, _renumbered((*_claim_of(again), CALLED, *claim[5:])))\n",
                "        told = (*claim[5:7], writer.filtered)\n"
                "        return _compact(again, _renumbered((*_claim_of(again), CALLED, *told)))\n",
            ),
        ),
        frozenset({"ONCE"}),
        {"log": "gg", "drops": False},
        "fan_one",
    ),
    Mutant(
        "count_stays_after_landing",
        "3.9 what a commit has counted is counted by the next one again",
        ((WRITERS, "filtered=max(0, writer.filtered - claim.filtered)", "filtered=writer.filtered"),),
        frozenset({"ONCE"}),
        {"log": "gg", "drops": False},
        "fan_one",
    ),
    Mutant(
        "landing_forgets_count",
        "3.9 a commit that lands takes the count of what was integrated after it was frozen with it",
        ((WRITERS, "filtered=max(0, writer.filtered - claim.filtered)", "filtered=0"),),
        LOSS,
        {"log": "gg", "drops": False},
        "fan_one",
    ),
    Mutant(
        "markers_count_nothing",
        "3.9 an empty marker says nothing of what was left out",
        ((WORLD, "claim = replace(claim, files=())", "claim = replace(claim, files=(), filtered=0)"),),
        LOSS,
        {"log": "g"},
        "fan",
    ),
    Mutant(
        "counted_before_the_bound",
        "3.9, 3.1 a round counts also what lies at or below a type's bound",
        ((WORLD, "self.left_out(name, mine)", "self.left_out(name, range(plan.start, plan.end))"),),
        frozenset({"ONCE"}),
        {"log": "gg", "drops": False},
        "fan_one",
    ),
    Mutant(
        "discarded_counts",
        "3.9, 3.1 a fragment of a type that is discarded is counted all the same",
        (
            (
                WRITERS,
                '            discarded[name] = refusal or "it has no position yet"\n',
                '            discarded[name] = refusal or "it has no position yet"\n'
                "            if writer is not None:\n"
                "                count = writer.filtered + fragment.filtered.get(name, 0)\n"
                "                after[key] = replace(writer, filtered=count)\n",
            ),
        ),
        frozenset({"ONCE"}),
        {"log": "g", "reassign": True, "drops": False},
        "fan_one",
    ),
    Mutant(
        "own_commit_compares_nothing",
        "4.11 a task that commits its offer by itself does not compare the positions",
        ((COMMIT, "            if position != Position(claim.epoch, claim.expected):\n", "            if False:\n"),),
        frozenset({"ONCE"}),
        {"forgets": False},
        "coordinate",
    ),
    Mutant(
        "leader_compares_nothing",
        "4.11 a leader commits offers wherever the positions are",
        ((MERGING, "        if position != Position(claim.epoch, claim.expected):\n", "        if False:\n"),),
        frozenset({"ONCE"}),
        {"forgets": False},
        "coordinate",
    ),
    Mutant(
        "offer_without_a_signature",
        "4.11 a leader commits offers that anybody who can write to the control topic has made up",
        ((SIGNATURE, "        return self._fits(message) or", "        return True or self._fits(message) or"),),
        frozenset({"COVER"}),
        {},
        "coordinate",
    ),
    Mutant(
        "offer_beyond_the_end",
        "4.11 a leader moves positions to where no record is yet",
        ((MERGING, "            if claim.new >= ends.get(claim.tp, 0):\n", "            if False:\n"),),
        frozenset({"COVER"}),
        {},
        "coordinate",
    ),
    Mutant(
        "two_offers_of_a_partition",
        "4.11 two offers on one partition are in one commit",
        ((MERGING, "        if claim.tp in taken:\n", "        if False:\n"),),
        frozenset({"ONCE"}),
        {},
        "coordinate",
    ),
    Mutant(
        "outcome_unverified",
        "4.11 a task takes an outcome that it hears for true",
        (
            (MEMBER, "report = self._found(one.prepared)", f"report = {BELIEVED}"),
            (MEMBER, "from exporter.core.outcome import Prepared, Report\n", BELIEVES),
        ),
        ORDER,
        {"lies": True},
        "coordinate",
    ),
    Mutant(
        "found_is_told",
        "4.11 who is told that an offer has landed does not look whether the log has it",
        (
            (
                COMMIT,
                "        if any(isinstance(one.outcome, Unknown) for one in settled):\n            return None\n",
                "        at = {one.claim.key.tp: Position(0, one.claim.new) for one in settled}\n"
                "        settled = [Settled(one.claim, Landed(at[one.claim.key.tp])) for one in settled]\n",
            ),
        ),
        ORDER,
        {},
        "coordinate",
    ),
    Mutant(
        "unknown_told_as_landed",
        "4.11 a leader tells offers whose outcome it does not know as landed: held by the verification",
        (
            (
                COORDINATE,
                "        return found.landed, tuple(found.dropped)\n",
                "        return tuple(one for one, _ in offers if one not in found.dropped), tuple(found.dropped)\n",
            ),
        ),
        NOTHING,
        {"ids": 1, "owns": ((0, 1), ())},
        "coordinate",
    ),
    Mutant(
        "falls_back_under_another_id",
        "4.11 a task commits what it has offered under an id that the log was not told of",
        (falls_back("replace(claim, offers=(one.prepared.commit_id + 'x',))"), REPLACES),
        ORDER,
        {},
        "coordinate",
    ),
    Mutant(
        "falls_back_and_forgets",
        "4.11 the same, the log is told: what landed by the leader is taken for somebody else's",
        (
            falls_back("replace(claim, offers=(one.prepared.commit_id + 'x',))"),
            REPLACES,
            TELLS_THE_LOG,
            TOLD_WITH_THE_COMMIT,
        ),
        ORDER,
        {"finds": False},
        "coordinate",
    ),
    Mutant(
        "falls_back_under_both_ids",
        "4.11, 4.1 under another id that the log was told of, the former one remembered: held by 4.4",
        (
            falls_back("replace(claim, offers=(*claim.offers, one.prepared.commit_id + 'x'))"),
            REPLACES,
            TELLS_THE_LOG,
            TOLD_WITH_THE_COMMIT,
        ),
        NOTHING,
        {"ids": 1, "owns": ((0, 1), ())},
        "coordinate",
    ),
    Mutant(
        "falls_back_changed",
        "4.11 what a task commits by itself is more than it has offered, under the same id",
        (
            (
                COORDINATE,
                "        process = (writers, (offer_id, claims, SAID), name)\n",
                "        anew = [self.frozen(one[0], (*writers[one[0]][:3], None)) for one in claims]\n"
                "        claims = tuple((*one[:4], (offer_id,)) for one in anew)\n"
                "        process = (writers, (offer_id, claims, SAID), name)\n"
                "        for one in claims:\n"
                "            process = _put(process, one[0], (*writers[one[0]][:3], one[1:]))\n"
                "        writers = process[0]\n",
            ),
        ),
        ORDER,
        {"logs": ("AA", "A")},
        "coordinate",
    ),
    Mutant(
        "lands_in_part",
        "4.11 of an offer one of whose partitions has moved the others land",
        (
            (MERGING, "from dataclasses import dataclass\n", "from dataclasses import dataclass, replace\n"),
            (
                MERGING,
                "        wanted = fits.union(offer.fits)\n",
                "        alone = [replace(offer, claims=(one,)) for one in offer.claims]\n"
                "        left = [claim for one in alone if not _unmet(app, view, one, taken) for claim in one.claims]\n"
                "        offer = replace(offer, claims=tuple(left)) if left else offer\n"
                "        wanted = fits.union(offer.fits)\n",
            ),
        ),
        ORDER,
        {"forgets": False},
        "coordinate",
    ),
    Mutant(
        "given_up_is_failed",
        "4.11 the log is told that an offer failed which its task has given up and a leader may still commit",
        ((COMMIT, "isinstance(one.outcome, Stale) and not self._others_commit:", "isinstance(one.outcome, Stale):"),),
        ORDER,
        {"ids": 1, "alters": 2, "owns": ((0,), ())},
        "coordinate",
    ),
    Mutant(
        "ends_before_the_freeze",
        "4.12 a leader asks what there is before the first claim is frozen",
        ((THROUGH, NO_CLAIMS, ASKS_FIRST.format("(len(logs), tuple(map(len, logs)))")),),
        frozenset({"THROUGH"}),
        {},
        "through",
    ),
    Mutant(
        "partitions_before_the_freeze",
        "4.12 which partitions there are is asked before the first claim is frozen",
        ((THROUGH, NO_CLAIMS, ASKS_FIRST.format("(len(logs),)")),),
        frozenset({"THROUGH"}),
        {"partitions": 1, "added": 1},
        "through",
    ),
    Mutant(
        "through_the_same_millisecond",
        "4.12 what is said is the least of the times, not a millisecond less",
        ((VALID_THROUGH, "max(min(told) - 1, before_ms)", "max(min(told), before_ms)"),),
        frozenset({"THROUGH"}),
        {},
        "through",
    ),
    Mutant(
        "through_the_greatest",
        "4.12 what is said is the greatest of the times",
        ((VALID_THROUGH, "max(min(told) - 1, before_ms)", "max(max(told) - 1, before_ms)"),),
        frozenset({"THROUGH"}),
        {"mode": "strict"},
        "through",
    ),
    Mutant(
        "silent_is_idle",
        "4.12 a partition that takes no part is left out, whatever it has beyond its position",
        ((VALID_THROUGH, "ends[tp] <= positions.get(tp, -1) + 1", "True"),),
        frozenset({"THROUGH"}),
        {},
        "through",
    ),
    Mutant(
        "through_not_kept",
        "4.12 what was said before is not looked at: in ordered input held by the order",
        ((VALID_THROUGH, "max(min(told) - 1, before_ms)", "min(told) - 1"),),
        NOTHING,
        {"records": 2},
        "through",
    ),
    Mutant(
        "announced_is_kept_unasked",
        "4.13 what is kept goes on although the message was not acknowledged",
        ((FOLLOWER, "                if table not in failed:\n", "                if True:\n"),),
        TOLD,
        {"log": "rr"},
        "announce",
    ),
    Mutant(
        "begins_without_another_look",
        "4.13 where announcing begins is kept without a second look whether somebody has begun",
        (
            (
                FOLLOWER,
                "strict=True)\n            pointers = self._kept.load()\n            if pointers is None:\n",
                "strict=True)\n            if pointers is None:\n",
            ),
        ),
        TOLD,
        {"log": "rr"},
        "announce",
    ),
    Mutant(
        "commits_before_announcing_begins",
        "4.13 a task commits before it is kept where announcing begins",
        ((ANNOUNCE, "        return begun\n", "        return True\n"),),
        TOLD,
        {"log": "rr", "faults": 0},
        "announce",
    ),
    Mutant(
        "new_table_begins_where_it_is",
        "4.13 a table that came after the beginning is announced from the version on that it is at",
        (
            (
                FOLLOWER,
                "return (self._pointers or {}).get(table, Pointer())",
                "if table not in (self._pointers or {}):\n"
                "            newest = self._logs.newest(table)\n"
                "            self._pointers[table] = Pointer(newest, newest)\n"
                "        return self._pointers[table]",
            ),
        ),
        TOLD,
        {"log": "rr", "there": 0},
        "announce",
    ),
    Mutant(
        "lost_versions_are_passed",
        "4.13 what the log has lost is passed without a word",
        (
            (
                FOLLOWER,
                "_Found(Skipped(self._app, table, pointer.looked + 1, oldest - 1, pointer.announced)",
                "_Found(None",
            ),
        ),
        TOLD,
        {"log": "rrr", "cleans": True},
        "announce",
    ),
)


def run(mutant: Mutant, states_max: int = STATES_MAX) -> dict[str, Any]:
    """Search the mutant in a process of its own. Raises ValueError if a text is not there exactly once."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        edited = {Path(file) for file, _, _ in mutant.edits}
        for path in map(Path, ("exporter", "offsets", "tests/model", DAYS)):
            (root / path).parent.mkdir(exist_ok=True, parents=True)
            link(path, root, edited)
        shutil.copy(REPOSITORY / NAMES_TESTS, root / NAMES_TESTS.name)
        for file, old, new in mutant.edits:
            edit(mutant.name, root / file, old, new)
        request = json.dumps({"world": mutant.world, "scope": mutant.scope, "states_max": states_max, "root": folder})
        done = subprocess.run(
            [sys.executable, "-S", "-m", "tests.model.mutant_run", request],
            cwd=root,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([folder, *PACKAGES]), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=200,
        )
    if done.returncode:
        raise RuntimeError(f"{mutant.name}: {done.stderr}")
    return dict(json.loads(done.stdout))


def link(path: Path, root: Path, edited: Set[Path]) -> None:
    """Put what is at a path of the repository below root, compiled modules too; nothing that is edited is shared."""
    if any(path in file.parents for file in edited):
        (root / path).mkdir()
        for inner in (REPOSITORY / path).iterdir():
            link(path / inner.name, root, edited)
    elif path.name == "__pycache__":  # of what is edited none may be believed
        shutil.copytree(REPOSITORY / path, root / path, copy_function=os.symlink)
    else:
        (root / path).symlink_to(REPOSITORY / path)


def edit(name: str, file: Path, old: str, new: str) -> None:
    """Replace a text in the copy, and in the copy only. Raises ValueError if it is not there exactly once."""
    text = file.read_text()
    if text.count(old) != 1:
        raise ValueError(f"{name}: {file.name} holds {text.count(old)} times, not once: {old!r}")
    file.unlink()
    file.write_text(text.replace(old, new))
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()
