"""Why a record is no row: what is raised where it is found, in any format. Pure."""

from __future__ import annotations


class DeadLetter(Exception):
    """One record is a dead letter, or each one of a writer: the text is the reason, a code, a colon, and a path where
    there is one."""

    def within(self, where: str) -> DeadLetter:
        """The same of what that stands in: at a path of a record, or of a schema by its name, if it has one."""
        code, _, what = str(self).partition(": ")
        return DeadLetter(f"{code}: {where}: {what}") if where else self
