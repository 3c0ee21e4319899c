"""What kinds of values settings have: numbers, names, times, each told from what only looks like one."""

from __future__ import annotations

import math
import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, SecretStr, TypeAdapter, ValidationError

from exporter.core.record_columns import name_problem
from exporter.core.shapes import Constant
from exporter.errors import ConfigError
from exporter.stores.stores import open_store
from offsets.names import TOPIC
from offsets.partitions import UNITS

CRON_DEFAULT = "30 3 * * *"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_BROKER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
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


def _constants(value: object) -> object:
    """Columns that hold one value in every row."""
    for name, one in value.items() if isinstance(value, dict) else ():
        if reason := name_problem(name):
            raise ValueError(reason)
        if not isinstance(one, str | int | float):
            raise ValueError(f"{name} should be a text, a number, true or false")
        if isinstance(one, int) and not -(2**63) <= one < 2**63:
            raise ValueError(f"{name} is no number of 64 bits")
        if isinstance(one, float) and not math.isfinite(one):
            raise ValueError(f"{name} should be a number")
    return value


def _texts(value: object) -> object:
    """TOML's numbers and booleans -> the texts that Spark takes."""
    if not isinstance(value, dict):
        return value
    return {name: str(one).lower() if isinstance(one, bool | int) else one for name, one in value.items()}


def _host_and_port(brokers: tuple[str, ...]) -> tuple[str, ...]:
    for broker in brokers:
        match = _BROKER.fullmatch(broker)
        if not match or not 0 < int(match[1]) < 65_536:
            raise ValueError(f"{broker!r} should be host:port")
    return brokers


def _topic_names(topics: tuple[str, ...]) -> tuple[str, ...]:
    for topic in topics:
        if not TOPIC.match(topic) or topic in (".", ".."):
            raise ValueError(f"{topic!r} should be a topic's name: at most 249 of [A-Za-z0-9._-]")
    if len(set(topics)) < len(topics):
        raise ValueError("a topic is named twice")
    return topics


def _topic_or_none(topic: str) -> str:
    return _topic_names((topic,))[0] if topic else topic


def _webhook(address: SecretStr | None) -> SecretStr | None:
    """Refused without showing it: what stands in it may let whoever has it post."""
    try:
        parts = urlsplit(address.get_secret_value() if address else "http://none")
        whole = bool(parts.hostname) and parts.port != 0  # a port that is no number raises
    except ValueError:
        whole = False
    if not whole or parts.scheme not in ("http", "https") or re.search(r"\s", parts.geturl()):
        raise ValueError("should be http://host/path or https://host/path")
    if parts.username is not None or parts.fragment:
        raise ValueError("should have no user and no fragment")
    return address


def _group_name(group: str) -> str:
    if not group.strip() or not group.isprintable():
        raise ValueError("should be the name of a consumer group")
    return group


def _root_of_a_store(root: str) -> str:
    try:
        open_store(root)
    except ConfigError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error
    return root


def _matching(pattern: str, reason: str, or_empty: bool = False) -> AfterValidator:
    """Texts that match as a whole; of others it is told what they should be."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text) and not (or_empty and not text):
            raise ValueError(reason)
        return text

    return AfterValidator(check)


Count = Annotated[int, BeforeValidator(_no_bool), Field(ge=1)]
CountFrom0 = Annotated[int, BeforeValidator(_no_bool), Field(ge=0, le=2**31 - 1)]
Days = Annotated[int, BeforeValidator(_no_bool), Field(ge=0, le=36_525)]
"""0: for ever."""
BytesFrom0 = Annotated[int, BeforeValidator(_no_bool), Field(ge=0)]
Seconds = Annotated[float, BeforeValidator(_no_bool), Field(gt=0, allow_inf_nan=False)]
SecondsFrom0 = Annotated[float, BeforeValidator(_no_bool), Field(ge=0, allow_inf_nan=False)]
WalMode = Annotated[Literal["required", "best_effort", "off"] | None, BeforeValidator(_or_none)]
Port = Annotated[int, BeforeValidator(_no_bool), Field(ge=0, le=65_535)]
LeaseSeconds = Annotated[float, BeforeValidator(_no_bool), Field(ge=2, le=3600)]
Brokers = Annotated[tuple[str, ...], BeforeValidator(_names), Field(min_length=1), AfterValidator(_host_and_port)]
TopicNames = Annotated[tuple[str, ...], BeforeValidator(_names), AfterValidator(_topic_names)]
OwnTopic = Annotated[str, AfterValidator(_topic_or_none)]
Webhook = Annotated[SecretStr | None, BeforeValidator(_or_none), AfterValidator(_webhook)]
Group = Annotated[str, AfterValidator(_group_name)]
Root = Annotated[str, AfterValidator(_root_of_a_store)]
WalTable = Annotated[
    str,
    _matching("[A-Za-z0-9_.-]{3,255}", "should be the name of a DynamoDB table: 3 to 255 of [A-Za-z0-9_.-]", True),
]
ENDPOINT = r"https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?/?"
Endpoint = Annotated[str, _matching(ENDPOINT, "should be http://host:port or https://host:port", True)]
Database = Annotated[
    str,
    _matching(
        r"(?:[a-z0-9_]{1,128}\.)?[a-z0-9_]{1,128}", "should have lower-case letters, digits and _ only", True
    ),
]
AbsolutePath = Annotated[str, _matching("/.+", "should be a path from / on", True)]
Constants = Annotated[dict[str, Constant], BeforeValidator(_constants)]
TextTable = Annotated[dict[str, str], BeforeValidator(_texts)]
Host = Annotated[str, _matching("[A-Za-z0-9.:-]+", "should be an address or a host name, without a port")]
Master = Annotated[
    str,
    _matching(
        r"local(?:\[(?:\*|[1-9][0-9]*)\])?|yarn|(?:spark|k8s)://\S+",
        "should be local, local[*], local[<cores>], yarn, spark://... or k8s://...",
    ),
]
DriverHost = Annotated[
    str,
    _matching(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]", "should be an address or a host name, without a port", True),
]
Archive = Annotated[str, _matching("[^#,]+#[A-Za-z0-9._-]+", "should be path#folder, such as env.tar.gz#env", True)]
Memory = Annotated[str, _matching("[1-9][0-9]*[kmgtKMGT]", "should be a number with k, m, g or t, such as 2g")]
if TYPE_CHECKING:
    PartitionBy: TypeAlias = str
else:
    PartitionBy = Literal[tuple(UNITS)]
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

OptionalCron = Annotated[str, BeforeValidator(lambda value: value if value == "" else _cron(value))]
"""Or none."""
