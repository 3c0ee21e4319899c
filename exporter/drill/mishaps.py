"""Scenarios in which people, retention or a power cut do something to tables and topics.

Where a task tells the operator what to do, it is done as told.
"""

from __future__ import annotations

import signal

from exporter.drill import power
from exporter.drill.outages import live
from exporter.drill.run import NotAsItMust, Run
from exporter.faults import Fault
from exporter.wal.dynamodb import DynamoDbLog
from offsets.intents import IntentState
from offsets.ranges import TopicPartition

UNCHECKED = "spark.databricks.delta.retentionDurationCheck.enabled"
POWER_CUTS = 8


def restored(run: Run) -> None:
    """A table is restored under a running task, which stops; the repair is killed half-way, and done again."""
    task = live(run)
    back = run.version("order") - 2
    run.note(task, f"RESTORE order to version {back}")
    task.signal(signal.SIGSTOP, whole=True)  # RESTORE never wins against a commit a second
    run.sql(f"RESTORE TABLE {run.table('order')} TO VERSION AS OF {back}")
    task.signal(signal.SIGCONT, whole=True)
    verb = run.told(task)
    run.strike_by(run.start(*verb, armed=f"{Fault.AFTER_REPAIR.value}:kill:1", verb="repair"), "in the repair")
    run.ends(run.start(*verb, verb="repair"), 0)
    run.finish()


def dropped(run: Run) -> None:
    """A table's folder is removed under a running task."""
    task = live(run)
    run.note(task, "click is removed")
    run.lake.drop("click")
    run.told(task)
    run.lake.forget("click")
    run.repair(task)
    run.finish()


def file_deleted(run: Run) -> None:
    """A live data file is deleted behind Delta's back: the audit names it; restored to before it, all is read again."""
    task = live(run)
    run.stop(task)
    version, path = run.newest_file("order")
    run.note(task, f"{path} is deleted, of version {version}")
    run.lake.delete("order", path)
    clean, says = run.audited()
    if clean or path.rpartition("/")[2] not in says:
        raise NotAsItMust(f"the audit does not name the file that is gone: {says}")
    run.sql(f"RESTORE TABLE {run.table('order')} TO VERSION AS OF {version - 1}")
    run.repair(run.start())
    run.finish()


def optimized(run: Run) -> None:
    """OPTIMIZE while a task works; VACUUM without retention between a kill and the next start."""
    task = live(run)
    for _ in range(2):
        for name in ("order", "click", "dead_letters"):
            run.sql(f"OPTIMIZE {run.table(name)}")
        run.wait_commit(task, 4)
        run.check()
        run.kill(task)
        run.no_survivors(task)  # whoever commits what VACUUM deletes at the same moment loses it: hence the retention
        run.sql(f"SET {UNCHECKED} = false", f"VACUUM {run.table('order')} RETAIN 0 HOURS")
        task = run.start()
        run.wait_commit(task)
        run.check()
    run.over(task)


def retention(run: Run) -> None:
    """Kafka deletes what was not read; the gap is recorded, with a kill after its row and one after its move."""
    task = live(run)
    run.kill(task)
    for point in (Fault.AFTER_GAP_ROW, Fault.AFTER_GAP_MOVE):
        run.nap(2)
        lost = run.lose_records()
        run.note(task, f"retention takes {lost} records")
        run.strike_by(run.start(armed=f"{point.value}:kill:1", on_gap="record"), f"at {point.value}")
        run.check()
        task = run.start(on_gap="record")
        run.wait_commit(task, 2)
        run.kill(task)
    run.finish(on_gap="record")


def replayed(run: Run) -> None:
    """A type is declared too late; the replay of its dead letters is killed at each of its steps."""
    click = run.types.pop("click")
    task = live(run)
    run.stop(task)
    run.types["click"] = click
    run.ends(run.start("--until-caught-up"), 0)
    for point in (Fault.AFTER_REPLAY_STAGE, Fault.AFTER_REPLAY_COMMIT, Fault.AFTER_REPLAY_DELETE):
        replay = run.start("replay", "--apply", armed=f"{point.value}:kill:1", verb="dead-letters")
        run.strike_by(replay, f"at {point.value}")
    run.ends(run.start("replay", "--apply", verb="dead-letters"), 0)
    run.finish()


def power_cut(run: Run) -> None:
    """The power is cut under a working task, again and again: what nobody was told of is gone, half, or there."""
    run.load()
    for number in range(POWER_CUTS):
        if number % 2:
            task = run.start()
            run.wait_commit(task, 3)
            run.nap(run.rng.uniform(0, 2))
            run.kill(task)
        else:
            task = run.start(armed=f"{Fault.AFTER_DELTA_COMMIT.value}:kill:{run.rng.randint(3, 20)}")
            run.strike_by(task, "as the power goes")
        run.no_survivors(task)
        lost = power.cut(run.folder / "lake", _untold(run), run.rng)
        run.note(task, f"the power cut takes or damages {len(lost)} files")
        run.lake.again()
        run.check()
    run.finish()


def _untold(run: Run) -> dict[str, int]:
    """Event type -> the version that nobody was told of: neither the reader of a task's log nor that of DynamoDB.

    It can only be a table's newest: a task offers the next one when the last one stands.
    """
    run.look()
    told = dict.fromkeys(run.lake.tables, 0)
    said = [one.fields for task in run.tasks for one in task.events() if one.name == "commit_landed"]
    landed = [(one["table"], one["version"]) for one in said]
    if run.services.log:
        log = DynamoDbLog.connect(run.topic, run.app, run.services.endpoint)
        intents = [one for at in range(run.size.partitions) for one in log.read(TopicPartition(run.topic, at))]
        landed += [(one.key.event_type, one.version) for one in intents if one.state is IntentState.COMPLETED]
    for name, version in landed:
        told[name] = max(told[name], version or 0)
    return {name: table.version for name, table in run.lake.tables.items() if table.version > told[name]}
