"""How long to wait before something that failed is tried again. Pure; the clock is the caller's.

    failures before   0      1          2          3          ...
    seconds           first  2 x first  4 x first  8 x first  most_secs at most
"""

from __future__ import annotations

from dataclasses import dataclass

RETRY_SECS = 1.0
"""Until what a silent broker, another task or a held lock was in the way of is tried again: no back-off, a beat."""
DOUBLINGS_MAX = 64
"""Beyond every limit that anybody sets, and far from what a float cannot hold."""


@dataclass(frozen=True)
class Backoff:
    """The seconds from one try to the next, doubling from `first_secs` up to `most_secs`."""

    first_secs: float
    most_secs: float

    def after(self, failures: int) -> float:
        """failures: how many have gone before; 0 waits for first_secs."""
        return min(self.most_secs, self.first_secs * 2.0 ** min(failures, DOUBLINGS_MAX))

    def lasting(self, secs: float, share: float) -> float:
        """After an outage of so many seconds: a share of it, from first_secs to most_secs."""
        return min(self.most_secs, max(self.first_secs, secs * share))
