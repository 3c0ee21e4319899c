"""Statements of Spark SQL that commit to a job's table: what the commit says, and what became of it (protocol 9.5)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from exporter.derive.target import Target
from exporter.errors import ExporterError, Fenced
from exporter.faults import Fault, point
from exporter.lake.later import Later
from exporter.sql_text import json_setting
from offsets.table_log import TableView

TXN = "spark.databricks.delta.write."
SAYS = "spark.databricks.delta.commitInfo.userMetadata"
BASED_ON = "based_on"
"""In the metadata of such a commit: the version of the table that the statement was made of."""
PURGED = "purged"
"""In that of a purge."""
IN_ALL = "left_out_in_all"
"""In that of a run: why -> how many of all rows that the table has taken of its source are not in it."""
TRIES = 3
CONFLICT = "CONCURRENT"
"""In what Delta says where another commit was in the way: OPTIMIZE, or a user's DELETE."""


class Statements:
    """Runs them, each as one commit of the job's own session."""

    def __init__(self, target: Target, later: Later) -> None:
        self._target = target
        self._later = later

    def commit(
        self,
        based_on: TableView,
        sql: str,
        says: Mapping[str, Any],
        progress: tuple[str, int] | None = None,
    ) -> tuple[int, int]:
        """The version that a statement made, and how many rows it changed, -1 if its call did not tell.

        progress: appId and version of the one txn action that such a commit can have. Delta does not run a statement
        whose version is not above the table's: what another process has done is not done again.
        Raises Fenced where another process ran the job, ExporterError.
        """
        job, tries = self._target.job, 0
        while True:
            tries += 1
            commit_id, changed = uuid.uuid4().hex, [-1]
            metadata = {**self._target.metadata(commit_id), BASED_ON: based_on.version, **says}
            point(Fault.BEFORE_DERIVE_COMMIT, job)

            def offer(metadata: Mapping[str, Any] = metadata, changed: list[int] = changed) -> None:
                changed[0] = self.run(sql, metadata, progress)

            try:
                return self._target.settled(based_on, commit_id, offer), changed[0]
            except Fenced:
                raise
            except ExporterError as error:
                if tries == TRIES or CONFLICT not in str(error.__cause__).upper():
                    raise

    def run(
        self,
        sql: str,
        metadata: Mapping[str, Any],
        progress: tuple[str, int] | None = None,
    ) -> int:
        """Run one; how many rows it changed. Raises whatever Spark raises."""
        session, said = self._later.session, {SAYS: json_setting(metadata)}
        if progress:
            said |= {f"{TXN}txnAppId": progress[0], f"{TXN}txnVersion": str(progress[1])}
        try:
            for name, text in said.items():
                session.conf.set(name, text)
            found = session.sql(sql).collect()
        finally:
            for name in said:
                session.conf.unset(name)
        return int(found[0]["num_affected_rows"]) if found else 0
