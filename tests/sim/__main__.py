"""`python -m tests.sim`: worlds of fresh seeds for so many seconds, or one seed with its timeline.

    python -m tests.sim --seconds 60             what was met, and each seed that broke something
    python -m tests.sim --seconds 3600 --processes 2
    python -m tests.sim --seed 1234              the same world again, shrunk if it breaks, and its timeline
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests.sim.features import Features
from tests.sim.runs import in_one_order, shrunk, timeline, tried


def main() -> int:
    """Exit code 1 if a seed has broken something."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long fresh seeds are tried")
    parser.add_argument("--processes", type=int, default=1, help="how many try fresh seeds at a time")
    parser.add_argument("--first", type=int, default=None, help="the first of the fresh seeds; else by the time of day")
    parser.add_argument("--seed", type=int, default=None, help="this one alone")
    parser.add_argument("--features", help="of that one, as JSON, where they are not the ones that it draws")
    asked = parser.parse_args()
    if asked.seed is not None:
        features = Features(**json.loads(asked.features)) if asked.features else Features.fresh(asked.seed)
        world = shrunk(asked.seed, features)
        print(timeline(asked.seed, world or features))
        return 0 if world is None else 1
    first = int(time.time()) if asked.first is None else asked.first
    print(f"fresh seeds from {first} on")
    runs = tried(first, asked.seconds, asked.processes)
    print(runs.told())
    return 1 if runs.broken else 0


if __name__ == "__main__":
    in_one_order("tests.sim")
    sys.exit(main())
