"""What kinds of values settings have: numbers, names, times, each told from what only looks like one. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Annotated, Literal

from pydantic import AwareDatetime, BeforeValidator, Field, TypeAdapter, ValidationError

CRON_DEFAULT = "30 3 * * *"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TIME = "an ISO-8601 date and time with a zone, such as 2026-01-31T00:00:00Z"


def _no_bool(value: object) -> object:
    """TOML's true would pass as the number 1."""
    if isinstance(value, bool):
        raise ValueError("should be a number, not true or false")
    return value


def _names(value: object) -> object:
    """Comma text or a list -> a list; flags and environment variables hold text only."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _or_none(value: object) -> object:
    """Flags and environment variables cannot hold nothing."""
    return None if value == "" else value


def _partitions(value: object) -> object:
    """A TOML list of numbers -> the text that flags and environment variables hold."""
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _instant(value: object) -> datetime:
    """ISO-8601 text with a zone, or TOML's own date-time -> UTC. Numbers have no unit and are refused."""
    wanted = f"should be {_TIME}"
    if isinstance(value, str) and not re.match(r"\d{4}-\d\d-\d\d[Tt ]\d\d:", value):
        raise ValueError(wanted)
    if not isinstance(value, (str, datetime)):
        raise ValueError(wanted)
    try:
        return TypeAdapter(AwareDatetime).validate_python(value).astimezone(timezone.utc)
    except (ValidationError, OverflowError):
        raise ValueError(wanted) from None


def _first_position(value: object) -> str | datetime:
    """earliest, latest or an instant; Kafka reads negative milliseconds as something else."""
    if value in ("earliest", "latest"):
        return str(value)
    try:
        instant = _instant(value)
    except ValueError:
        raise ValueError(f"should be earliest, latest or {_TIME}") from None
    if instant < EPOCH:
        raise ValueError("should not lie before 1970")
    return instant


Count = Annotated[int, BeforeValidator(_no_bool), Field(ge=1)]
CountFrom0 = Annotated[int, BeforeValidator(_no_bool), Field(ge=0, le=2**31 - 1)]
Seconds = Annotated[float, BeforeValidator(_no_bool), Field(gt=0, allow_inf_nan=False)]
SecondsFrom0 = Annotated[float, BeforeValidator(_no_bool), Field(ge=0, allow_inf_nan=False)]
WalMode = Annotated[Literal["required", "best_effort", "off"] | None, BeforeValidator(_or_none)]
Port = Annotated[int, BeforeValidator(_no_bool), Field(ge=0, le=65_535)]
DaysFrom1 = Annotated[int, BeforeValidator(_no_bool), Field(ge=1, le=3650)]
LeaseSeconds = Annotated[float, BeforeValidator(_no_bool), Field(ge=2, le=3600)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names), Field(min_length=1)]
NamesOrNone = Annotated[tuple[str, ...], BeforeValidator(_names)]
Partitions = Annotated[str, BeforeValidator(_partitions)]
Instant = Annotated[AwareDatetime, BeforeValidator(_instant)]
Beginning = Annotated[Literal["earliest", "latest"] | AwareDatetime, BeforeValidator(_first_position)]


def _cron(value: object) -> object:
    """Five fields that APScheduler can read. It counts the days of the week from Monday and cron from Sunday: names."""
    if isinstance(value, str) and value != CRON_DEFAULT:
        if re.search("[0-9]", (value.split() or [""])[-1]):
            raise ValueError("should name days of the week (mon-fri): their numbers mean other days to others")
        from apscheduler.triggers.cron import CronTrigger  # most starts need no scheduler

        try:
            trigger = CronTrigger.from_crontab(value, timezone=timezone.utc)
        except (ValueError, KeyError) as error:
            raise ValueError(f"should be five fields as cron writes them, such as {CRON_DEFAULT!r}") from error
        if trigger.get_next_fire_time(None, datetime.now(timezone.utc)) is None:
            raise ValueError("should come at some time: there is no such day")
    return value


Cron = Annotated[str, BeforeValidator(_cron)]
