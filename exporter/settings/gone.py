"""Settings that there were once: what says the same now, and what a start is told that still gives one of them.

One rule for all: a value that is what holds now is a warning, for nothing changes; any other one is an error. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import NamedTuple

from exporter.settings.model import Settings, flag, variable
from exporter.settings.problem import Problem


class Gone(NamedTuple):
    """became: what says it now, or that nothing does. instead: what to do for another value than the one of now.

    now: the value that holds, for the settings.
    """

    became: str
    instead: str
    now: Callable[[Settings], object]


class Still(NamedTuple):
    """A setting that is gone, and given: its value, as it is given, and in which spelling, the value included."""

    name: str
    value: object
    spelled: str


_TIMES = "it is three times commit_interval_secs"
_FIXED = "it is always the same"

GONE: Mapping[str, Gone] = {
    "s3_path_style": Gone(
        "the bucket stands in the path wherever there is an s3_endpoint",
        "set s3_endpoint, also that of AWS (https://s3.<region>.amazonaws.com), for the path, or leave it out",
        lambda now: bool(now.s3_endpoint),
    ),
    "s3_allow_http": Gone(
        "an s3_endpoint with http:// says it",
        "leave it out, and write s3_endpoint with http:// or https://",
        lambda now: now.s3_endpoint.startswith("http://"),
    ),
    "block_port": Gone(
        "the driver's is driver_port + 1",
        'set driver_port; executors have theirs by "spark.blockManager.port" in [spark]',
        lambda now: 0,
    ),
    "columns_max": Gone(
        "it is ten times keys_max, but at least 1,000 and at most 2,000", "set keys_max", attrgetter("columns_max")
    ),
    "open_files_max": Gone(
        "it is 10,000 for each 512 MiB of memory_max_bytes", "set memory_max_bytes", attrgetter("open_files_max")
    ),
    "stage_age_max_secs": Gone(
        "it is six hours, or more where roll_age_max_secs needs it", "leave it out", attrgetter("stage_age_max_secs")
    ),
    "commit_mode": Gone(
        "it is coordinated where there is a control_topic, else own", "set control_topic", attrgetter("commit_mode")
    ),
    "commit_timeout_secs": Gone(_TIMES, "set commit_interval_secs", attrgetter("commit_timeout_secs")),
    "topics_refresh_secs": Gone(_FIXED, "leave it out", attrgetter("topics_refresh_secs")),
    "wal_keep_days": Gone(_FIXED, "leave it out", attrgetter("wal_keep_days")),
    "wal_verify_secs": Gone(
        "it is five times heartbeat_secs, and at most 300", "set heartbeat_secs", attrgetter("wal_verify_secs")
    ),
    "derive_secs": Gone(
        "it is a sixth of roll_age_max_secs, or commit_interval_secs with a control_topic, and at most 10",
        "set derive_cron for runs at fixed times",
        attrgetter("derive_secs"),
    ),
    "session_timeout_ms": Gone(
        "session_timeout_secs says it, in seconds", "set session_timeout_secs", attrgetter("session_timeout_ms")
    ),
}
"""Name -> what became of it."""


def still_given(
    file: Mapping[str, object], path: str, environ: Mapping[str, str], flags: Mapping[str, object]
) -> list[Still]:
    """All that is given of what is gone. path: of the file. environ: all variables."""
    in_file = [Still(name, file[name], f"{name} = {file[name]!r} in {path}") for name in GONE if name in file]
    variables = {name: environ[variable(name)] for name in GONE if variable(name) in environ}
    in_environ = [Still(name, text, f"{variable(name)}={text!r}") for name, text in variables.items()]
    by_flag = [Still(name, flags[name], f"{flag(name)} {flags[name]!r}") for name in GONE if name in flags]
    return [*in_file, *in_environ, *by_flag]


def refused(given: list[Still], settings: Settings) -> Iterator[Problem]:
    """Those whose values are not what holds now."""
    for one in given:
        gone = GONE[one.name]
        if not _same(one.value, now := gone.now(settings)):
            what = f"{one.spelled}: there is no such setting any more, and {now!r} holds: {gone.became}"
            yield Problem(what, gone.instead)


def _same(given: object, now: object) -> bool:
    """Flags and variables hold texts."""
    if isinstance(now, bool):
        return str(given).lower() in (("true", "1") if now else ("false", "0", ""))
    if isinstance(now, int | float):
        try:
            return float(str(given)) == now
        except ValueError:
            return False
    return str(given) == now
