"""Functions that settings name as `package.module:function`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from exporter.errors import ConfigError
from exporter.text import told

_SPELLED = "write `package.module:function`"


def function_of(path: str, setting: str) -> Callable[..., Any]:
    """`package.module:function`, imported. setting: that names it. Raises ConfigError if it cannot be."""
    module, _, name = path.partition(":")
    try:
        found = getattr(import_module(module), name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may do anything, also end the process
        what = f"{setting}: {path} cannot be imported: {told(error)}"
        raise ConfigError(what, f"{_SPELLED}, and install the package where the exporter runs") from error
    if not callable(found):
        raise ConfigError(f"{setting}: {path} is no function", _SPELLED)
    return found  # type: ignore[no-any-return]
