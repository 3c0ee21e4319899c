"""What Delta says of the table properties that the settings name: a table is made with them, all but its commit."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from exporter.errors import ConfigError
from exporter.lake.change import Change
from exporter.lake.fillable import unfillable
from exporter.lake.lake import Lake
from exporter.lake.log_files import as_view
from exporter.lake.properties import DELETED_FILE_RETENTION, retention_is_safe
from exporter.lake.schema import table_schema
from exporter.text import first_line

FEATURE = "delta.feature."


def tried(lake: Lake) -> tuple[str, ...]:
    """The features that readers must know of a table that the lake makes; none without properties.

    Asked of the dead letters' table, for every lake has it, under a name that is nobody's. Raises ConfigError for
    properties that a table cannot have, all of them told.
    """
    properties = lake.options.properties
    if not properties:
        return ()
    if wrong := [error for name, text in properties.items() for error in _wrong(lake.session._jvm, name, text)]:
        raise ConfigError.of(wrong, "table properties cannot be used")
    try:
        change = Change((), {}, {}, create=table_schema(None))
        state = lake.table(uuid.uuid4().hex).rehearse(change, lambda view: None)
    except Exception as error:  # py4j raises its own kinds
        raise ConfigError(f"table_properties: Delta makes no such table: {_said(error)}", _HINT) from error
    if reason := unfillable(as_view(0, state)):
        raise ConfigError(f"table_properties: a table that has them cannot be filled: {reason}", _HINT)
    return tuple(sorted(state.protocol.get("readerFeatures") or ()))


_HINT = "correct or remove it in [table_properties]"


def _wrong(jvm: Any, name: str, text: str) -> Iterable[ConfigError]:
    """What is wrong with one property."""
    what, configs = f"table_properties: {name} = {text!r}", jvm.org.apache.spark.sql.delta.DeltaConfigs
    try:
        checked = _as_dict(jvm, configs.validateConfigurations(jvm.PythonUtils.toScalaMap({name: text})))
    except Exception as error:  # noqa: BLE001 - py4j raises its own kinds
        known = [one.key() for one in _as_dict(jvm, configs.getAllConfigs()).values()]
        near = [] if name in known else get_close_matches(name, known, n=1)
        yield ConfigError(f"{what}: {_said(error)}", f"did you mean {near[0]}?" if near else _HINT)
        return
    if name not in checked and not name.startswith(FEATURE):
        yield ConfigError(f"{what}: Delta would not take it for {', '.join(checked)}", "write the name as Delta does")
    if name == DELETED_FILE_RETENTION and not retention_is_safe(text):
        yield ConfigError(f"{what}: VACUUM would delete staged files", "set it to one day or more")


def _as_dict(jvm: Any, scala_map: Any) -> Mapping[str, Any]:
    return dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(scala_map))


def _said(error: BaseException) -> str:
    """The first line of it, without the name of its class."""
    _, _, text = first_line(error).partition(": ")
    return text or first_line(error)
