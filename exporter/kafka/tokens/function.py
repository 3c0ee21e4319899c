"""Tokens of a function of the user's."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

from exporter.errors import ConfigError, DependencyUnreachable
from exporter.functions import function_of
from exporter.kafka.tokens.tokens import LEAST_SECS, Token, secs_of
from exporter.text import first_line

SETTING = "sasl_oauth_function"
_HINT = "it returns a token as text, and when it ends: seconds since 1970, or a datetime with a time zone"


@dataclass(frozen=True)
class OfFunction:
    """path: `package.module:function`. It is called without arguments whenever a token is needed, by any thread."""

    path: str

    @property
    def name(self) -> str:
        return self.path

    def new(self) -> Token:
        """Raises ConfigError for a function that is not there or returns something else, else DependencyUnreachable."""
        function = function_of(self.path, SETTING)
        try:
            answer = function()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            what = f"{SETTING}: {self.path} gives no token: {first_line(error)}"
            raise DependencyUnreachable(what, "see what it needs") from error
        if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], str) and answer[0]):
            raise self._unfit(f"it returned {type(answer).__name__}")
        value, ends = answer
        if isinstance(ends, datetime) and ends.tzinfo is not None:
            ends = ends.timestamp()
        at = None if isinstance(ends, bool | str) else secs_of(ends)
        if at is None:
            raise self._unfit(f"its token ends at {ends!r}")
        if at - time.time() <= LEAST_SECS:
            raise self._unfit("its token has ended")
        return Token(value, at)

    def _unfit(self, why: str) -> ConfigError:
        return ConfigError(f"{SETTING}: {self.path} gives no token: {why}", _HINT)
