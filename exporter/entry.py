"""The console script: signals are taken over before all else is loaded.

That takes so long that a signal may come meanwhile.
"""

from __future__ import annotations

import sys

from exporter.ending import ending


def main() -> None:
    """The verb that the command line names."""
    ending.install(sys.argv[1:])
    from exporter.cli.main import main as verbs

    verbs()
