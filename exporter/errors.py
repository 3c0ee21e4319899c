"""Every error that ends a verb, its exit code and its hint.

    ExporterError
    ├── FoundProblem            1   ran and found a problem
    ├── RoundFailed             1   a round's Spark job did not finish; a running task tries again
    ├── ConfigError             2   usage or configuration
    │   └── Widened                 declared as a column was before it was widened
    ├── CannotRepair            2   the tables alone cannot decide what would be right
    ├── DependencyUnreachable  69   a dependency is unreachable past its deadline
    │   ├── JvmEnded                the JVM that runs Spark is gone
    │   ├── BrokerSilent            no answer in time; a running task tries again
    │   ├── RegistryUnreachable     no answer about a schema; a running task tries again
    │   └── TableUnwritable         commits to a table fail
    ├── InvariantBroken        70   an invariant would break: stopped on purpose
    ├── TableUnreadable        70   a table's log cannot be read
    │   ├── LogCleaned              what has to be looked at is no longer in it
    │   └── StorageSilent      69   the storage did not give what is there; a running task tries again
    └── Fenced                 75   another task owns the partition

An error says what happened; its hint says what to do. Both are shown on separate lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from offsets import Invariant


class ExporterError(Exception):
    """Base of all errors shown to a person. `hint` is the next step, in one sentence."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class FoundProblem(ExporterError):
    """The verb ran to its end and found something wrong."""

    exit_code = 1


class ConfigError(ExporterError):
    """A setting, flag, schema or environment that cannot be used."""

    exit_code = 2

    @classmethod
    def of(cls, errors: Sequence[ConfigError], what: str, hint: str = "") -> ConfigError:
        """One error that tells all of them, each with its hint. what: they are; hint: for all of them."""
        if len(errors) == 1:
            return errors[0]
        lines = [f"\n  {one.message}" + (f"\n    hint: {one.hint}" if one.hint else "") for one in errors]
        return cls(f"{len(errors)} {what}:{''.join(lines)}", hint)


class DependencyUnreachable(ExporterError):
    """Kafka, Java, the jars or the storage did not answer within the deadline."""

    exit_code = 69


class JvmEnded(DependencyUnreachable):
    """The JVM that runs Spark is gone; what was not committed will be read again."""

    def __init__(self) -> None:
        super().__init__(
            "the JVM that runs Spark has ended",
            "start again; if it ran out of memory (see the lines above) raise `driver_memory`",
        )


class InvariantBroken(ExporterError):
    """Going on would break `invariant`; the process stops on purpose."""

    exit_code = 70

    def __init__(self, invariant: Invariant, message: str, hint: str = "") -> None:
        super().__init__(f"{invariant.name}: {message}", hint)
        self.invariant = invariant


class Fenced(ExporterError):
    """Another task owns what this one thought it owned; starting again is safe."""

    exit_code = 75


class RoundFailed(ExporterError):
    """The Spark job did not finish; nothing of it is staged.

    raw: of a round of one partition, its first record as Kafka has it, if it could be read right after the failure; by
    its coordinates alone, if its neighbours can be read and it cannot. Then the message says why not. lost: whether it
    failed with the executors that read it, on a cluster.
    """

    def __init__(self, message: str, hint: str = "", raw: Any = None, lost: bool = False) -> None:
        super().__init__(message, hint)
        self.raw = raw
        self.lost = lost


class CannotRepair(ExporterError):
    """The tables alone cannot decide what would be right."""

    exit_code = 2


class TableUnreadable(ExporterError):
    """A table's log cannot be read; this is never taken as 'no position' (traps 4)."""

    exit_code = 70


class StorageSilent(TableUnreadable):
    """The storage did not give what is there: it may a moment later."""

    exit_code = 69


class TableUnwritable(DependencyUnreachable):
    """Commits to a table fail, for a reason that only the system underneath knows."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "start again when the storage is well: everything goes on from the tables")


class Widened(ConfigError):
    """A column is declared as the table had it before it was widened: files of that type can still be read."""


class LogCleaned(TableUnreadable):
    """Versions that have to be looked at are no longer in the table's log."""


class BrokerSilent(DependencyUnreachable):
    """No answer in time; a running exporter tries again."""


class RegistryUnreachable(DependencyUnreachable):
    """The schema registry gives no answer, or none that is one; a running exporter tries again."""
