"""Which closed partitions of a table have been looked at for values that its columns could have (FILLED). Pure.

    <app>/backfilled/<fingerprint of the table's columns> = milliseconds since 1970: those that were closed then

It saves work, and nothing is right or wrong by it: who looks again finds the same.
"""

from __future__ import annotations


def backfilled_app_id(app: str, fingerprint: str) -> str:
    """The appId of a turn that has looked at all; no AppId of a partition has three parts."""
    return f"{app}/backfilled/{fingerprint}"
