"""A process beside the exporters that has a Spark session of its own: audits and SQL on the tables, one at a time.

One JSON object a line each way: {"audit": <settings file>} or {"sql": [<statement>, ...]}; the answer is
{"report": ...}, {"rows": ...} or {"error": ...}. Ends with its standard input. It is another process than the
exporters, so what they know does not help it, and it lives long, so that an audit need not start a JVM each time.
Its session can do what the store needs that it is told at its start: {"root": ..., "options": {...}}.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from exporter.errors import FoundProblem
from exporter.local.children import inherited_environment, quick_java
from exporter.operate.audit.report import AuditReport
from exporter.stores.store import Store
from exporter.stores.stores import open_store

_SERVE = "from exporter.drill.helper import serve; serve()"
STOP_SECS_MAX = 15.0


class Helper:
    """The parent's side; starts the process at the first question."""

    def __init__(self, log: Path, store: Store) -> None:
        """store: one of the kind in which the tables are."""
        self._log = log
        self._store = json.dumps({"root": store.uri(), "options": dict(store.options)})
        self._process: subprocess.Popen[str] | None = None
        self._asked = False

    def audit(self, config: Path) -> tuple[bool, str]:
        """Whether `exporter audit` finds nothing, and what it says."""
        report = self._ask({"audit": str(config)})["report"]
        return report["clean"], report["text"]

    def sql(self, *statements: str) -> None:
        """Run them in order. Raises FoundProblem with what Spark says."""
        self._ask({"sql": statements})

    def close(self) -> None:
        """End it; at once if nobody waits for its answer any more."""
        process = self._process
        if process is None or process.stdin is None:
            return
        if self._asked:
            process.kill()
        process.stdin.close()
        try:
            process.wait(STOP_SECS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        self._process = None

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        if self._process is None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _SERVE, self._store],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env={**inherited_environment(), **quick_java()},
                    text=True,
                    start_new_session=True,
                )
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise FoundProblem("the drill's helper has no pipes", "please report this")
        self._asked = True
        stdin.write(json.dumps(order) + "\n")
        stdin.flush()
        line = stdout.readline()
        self._asked = False
        answer: dict[str, Any] = json.loads(line) if line.strip() else {"error": "it has ended"}
        if "error" in answer:
            raise FoundProblem(f"the drill's helper: {answer['error']}", f"read {self._log}")
        return answer


def serve() -> None:
    """The child: answer until standard input ends."""
    from exporter import log
    from exporter.core.deployment import Deployment
    from exporter.spark import session as spark
    from exporter.text import first_line

    log.configure(json=True)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the JVM prints is no answer
    told = json.loads(sys.argv[1])
    java = open_store(told["root"], told["options"]).java
    session = spark.start(Deployment("local[2]"), "drill", short_lived=True, java=java)
    session.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")  # else VACUUM has 10,000 tasks
    for line in sys.stdin:
        order = json.loads(line)
        session._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        try:
            answer = _audit(session, Path(order["audit"])) if "audit" in order else _sql(session, order["sql"])
        except Exception as error:  # noqa: BLE001 - the parent is told, whatever it was
            answer = {"error": first_line(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    session.stop()


def _audit(session: Any, config: Path) -> dict[str, Any]:
    from exporter.kafka.options import kafka_python_options
    from exporter.kafka.topics import TopicReader
    from exporter.lake.lake import Lake
    from exporter.operate.audit.audit import audit
    from exporter.settings.load import load
    from exporter.settings.meaning import table_options
    from exporter.workbench import routing_of

    settings = load(config, {}, {})
    topics = TopicReader(kafka_python_options(settings), settings.selection, settings.isolation)
    try:
        lake = Lake(session, settings.store, settings.app, options=table_options(settings))
        configuration = routing_of(settings, session)
        report: AuditReport = audit(lake, topics, configuration)
    finally:
        topics.close()
    return {"report": {"clean": report.clean, "text": report.as_text()}}


def _sql(session: Any, statements: list[str]) -> dict[str, Any]:
    for statement in statements:
        session.sql(statement).collect()
    return {"rows": 0}
