"""What all kinds of jobs can do, and what they say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Planned:
    """What a job's next run would do. ranges: new offsets, or whatever else is new of each source, as text.

    statements: the SQL that it would run. says: why it would do nothing, or not what is usual.
    """

    job: str
    kind: str
    ranges: Mapping[str, str] = field(default_factory=dict)
    statements: Sequence[str] = ()
    says: str = ""


@dataclass(frozen=True)
class Ran:
    """What one run did. version: that it made of the job's table, None if it had nothing to do.

    more: whether there is more to be done at once, beyond what one run takes. says: what is worth telling. left_out:
    why -> how many of the rows that it took are in no table.
    """

    job: str
    rows: int = 0
    version: int | None = None
    more: bool = False
    says: str = ""
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def idle(self) -> bool:
        return self.version is None and not self.more


@dataclass(frozen=True)
class JobStatus:
    """Where a job stands. behind: source -> offsets that its table lacks. facts: what its kind has to say beside it."""

    job: str
    kind: str
    version: int | None
    behind: Mapping[str, int]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AuditLine:
    """One thing that was proven of a job, or was not. clean: whether it holds; rows: that were compared."""

    job: str
    what: str
    clean: bool
    rows: int
    says: str = ""


class Job(Protocol):
    """One [derive.<name>]. Its methods are called by one thread, one after the other.

    All of them raise ExporterError: InvariantBroken (70) where its sources took back what it has taken, Fenced (75)
    where another process runs the same job.
    """

    name: str
    kind: str

    def plan(self) -> Planned:
        """What run() would do now. Writes nothing."""

    def run(self) -> Ran:
        """Take what is new, at most as much as one run is to take, in one commit; none if there is nothing."""

    def rebuild(self) -> Ran:
        """Begin anew, from all that the sources hold, in one commit where there is a table."""

    def status(self) -> JobStatus:
        """Where it stands, by its table and its sources alone."""

    def audit(self) -> Sequence[AuditLine]:
        """Prove the table, independently of how it was made."""
