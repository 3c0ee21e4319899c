"""Logs: one event, one line, on stderr; stdout is for data.

An event is a member of log_events.py and fields: log.info(Event.COMMIT_LANDED, event_type=..., version=...).
Readable on a terminal, JSON elsewhere, times in UTC. What kafka-python, py4j,
boto3, apscheduler and Python's warnings say goes the same way, from WARNING on.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from exporter.log_events import Event
from exporter.secrets import masked
from exporter.text import encodable

OURS = ("exporter", "offsets")
REPEAT_SECS = 10.0
"""A line of a library is shown at most once in this time: an outage would print it several times a second."""
WARNING_REPEAT_SECS = 60.0
"""The same for a warning of ours about the same thing."""
THINGS = ("table", "partition", "dependency")
"""The fields that say what an event is about."""

ORDINARY = (
    ("kafka.coordinator", "NotCoordinatorError"),
    ("kafka.net.selector", "It is blocking the event loop"),
    ("kafka.coordinator.consumer", "Sync listeners block the consumer event loop"),
    ("root", "Exception while sending command."),
    ("kafka.cluster", "Metadata refresh loop error: weakly-referenced object no longer exists"),
)
"""(logger, part of its line): what a library warns of and gets over by itself. A group's first member meets the first
where the coordinator has just come to be; any client the second where the machine is busy for a tenth of a second. The
third is by design: a partition that is taken away is committed before it is let go. The fourth is py4j's stack trace
of a JVM that is gone: it raises as well, and whoever catches that tells the cause. The fifth is a client that nobody
holds any more, whose loop had not come to its end."""

_FIRST = ("time", "level", "logger", "event")


class Log:
    """The logger of a module. It takes the events of log_events.py and no other text."""

    def __init__(self, name: str) -> None:
        self._logger = structlog.stdlib.get_logger(name)

    def info(self, event: Event, **fields: object) -> None:
        """Log what is part of an ordinary life."""
        self._logger.info(event.value, **fields)

    def warning(self, event: Event, **fields: object) -> None:
        """Log what somebody may want to look at."""
        self._logger.warning(event.value, **fields)

    def error(self, event: Event, **fields: object) -> None:
        """Log what somebody has to look at."""
        self._logger.error(event.value, **fields)


def get_logger(name: str) -> Log:
    """A logger for a module, `get_logger(__name__)`; may be taken before configure()."""
    return Log(name)


_as_json = False


def as_json() -> bool:
    """Whether each line of the log is a JSON object."""
    return _as_json


def configure(json: bool | None = None) -> None:
    """Send all logs to stderr. json None: unless it is a terminal. May be called again."""
    global _as_json
    terminal = sys.stderr.isatty()
    json = _as_json = not terminal if json is None else json
    handler = _Stderr()
    handler.set_name(__name__)
    handler.addFilter(extraordinary)
    handler.addFilter(Repeats(REPEAT_SECS))
    handler.setFormatter(
        _Masking(
            foreign_pre_chain=_COMMON,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_renderers(json, colors=terminal),
            ],
        )
    )
    root = logging.getLogger()
    for old in [old for old in root.handlers if old.get_name() == __name__]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for name in OURS:
        logging.getLogger(name).setLevel(logging.INFO)
    logging.captureWarnings(True)


if TYPE_CHECKING:
    _Handler = logging.StreamHandler[TextIO]
else:
    _Handler = logging.StreamHandler  # no generic before Python 3.11


class _Stderr(_Handler):
    """To what stderr is at the time: a progress bar takes its place, and puts lines above itself."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """Read for each line."""
        return sys.stderr


class _Masking(structlog.stdlib.ProcessorFormatter):
    """Whoever wrote the line: no secret is in it, and every stream takes it."""

    def format(self, record: logging.LogRecord) -> str:
        return encodable(masked(super().format(record)))


def silence(library: str) -> None:
    """Let a library say nothing more in this process."""
    logging.getLogger(library).setLevel(logging.CRITICAL)


@contextmanager
def hushed(library: str) -> Iterator[None]:
    """While this lasts a library says nothing more in this process."""
    logger = logging.getLogger(library)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def relay(name: str, level: str, text: str) -> None:
    """What another program says, with a level by its name in logging or log4j.

    The text stands where logging has the line of source: only what is the same is held back as a repetition.
    """
    number = logging.getLevelName(level)
    logger = logging.getLogger(name)
    if isinstance(number, int) and logger.isEnabledFor(number):
        logger.handle(logging.LogRecord(name, number, text, 0, text, None, None))


def extraordinary(record: logging.LogRecord) -> bool:
    """Whether a line is none of ORDINARY."""
    return not any(record.name == name and part in record.getMessage() for name, part in ORDINARY)


class Repeats(logging.Filter):
    """Holds back a line that was shown a short time ago; the next one tells how many were (`held_back`).

    A library's line is the same if it comes from the same line of source; a warning or error of ours, if it has the
    same name and is about the same thing. What we tell as information always passes: it is one line per batch.
    """

    def __init__(
        self,
        secs: float,
        clock: Callable[[], float] = time.monotonic,
        warning_secs: float = WARNING_REPEAT_SECS,
    ) -> None:
        """secs: for libraries. warning_secs: for warnings and errors of ours."""
        super().__init__()
        self._secs = secs
        self._warning_secs = warning_secs
        self._clock = clock
        self._shown: dict[Hashable, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is shown."""
        ours = record.name.partition(".")[0] in OURS
        if ours and (record.levelno < logging.WARNING or not isinstance(record.msg, dict)):
            return True
        event: Any = record.msg
        key: Hashable = (record.pathname, record.lineno)
        if ours:
            key = (str(event.get("event")), *(str(event.get(name)) for name in THINGS))
        secs, now = self._warning_secs if ours else self._secs, self._clock()
        shown_at, held_back = self._shown.get(key, (now - secs, 0))
        if now - shown_at < secs:
            self._shown[key] = (shown_at, held_back + 1)
            return False
        self._shown[key] = (now, 0)
        if held_back and ours:
            record.msg = {**event, "held_back": held_back}
        elif held_back:
            record.msg, record.args = f"{record.getMessage()} ({held_back} more held back)", None
        return True


def _renderers(json: bool, colors: bool) -> list[Processor]:
    if json:
        renderer = structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
        return [structlog.processors.format_exc_info, _ordered, renderer]
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=colors, timestamp_key="time", exception_formatter=plain)]


def _ordered(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Time, level, logger and event first, then the fields as they were given."""
    return {name: event[name] for name in _FIRST if name in event} | dict(event)


_COMMON: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
]

structlog.configure(
    processors=[
        structlog.stdlib.filter_by_level,
        *_COMMON,
        cast(Any, structlog.stdlib.ProcessorFormatter.wrap_for_formatter),
    ],
    wrapper_class=structlog.stdlib.BoundLogger,
    logger_factory=structlog.stdlib.LoggerFactory(),
)
"""At import, not in configure(): structlog's own default would print to stdout."""
