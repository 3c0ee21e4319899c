"""Whether a change of settings can be carried through: asked of every table before the first is drained or sealed.

    drained?   a table that is behind takes rows of the configuration in force
    made, widened, sealed?   all of that commit but the commit itself: Delta says what it refuses
    written?   a file in its log's folder, made and removed

A switch that stops half way leaves tables in two epochs, and neither the old nor the new settings run. Writes nothing
that stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from exporter import threads
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.specs import table_spec
from exporter.errors import ConfigError, ExporterError
from exporter.lake.change import Change
from exporter.lake.properties import check_properties
from exporter.lake.schema import refuses, schema_change
from exporter.lake.settling import Failed
from exporter.protocol.anchor import Anchors, declared_schema
from offsets.crosscheck import Switch
from offsets.names import LOG_FOLDER
from offsets.ranges import TopicPartition
from offsets.table_log import TableView

TABLE_THREADS = 4
"""Tables that are asked at a time."""


def rehearse(
    anchors: Anchors,
    views: Mapping[str, TableView],
    switches: Mapping[TopicPartition, Switch],
    recorded: Mapping[str, Routing],
    writing: bool = True,
) -> None:
    """views: of one full reading. recorded: routing fingerprint -> configuration in force. writing: try that too.

    Raises what stands in the way, all that settings or users can correct at once: ConfigError, InvariantBroken,
    DependencyUnreachable.
    """
    names = sorted({DEAD_LETTERS, *(name for switch in switches.values() for name in switch.positions)})
    with threads.pool(TABLE_THREADS, "rehearsal") as pool:
        asked = [*pool.map(partial(_asked, anchors, views, writing=writing), names)]
    found = [*_undrainable(views, switches, recorded), *(error for errors in asked for error in errors)]
    for error in found:
        if not isinstance(error, ConfigError):
            raise error
    if unfit := [error for error in found if isinstance(error, ConfigError)]:
        raise ConfigError.of(
            unfit,
            "things are in the way of the new settings",
            "nothing was changed: the tasks with the old settings go on until all of them are corrected",
        )


def _undrainable(
    views: Mapping[str, TableView], switches: Mapping[TopicPartition, Switch], recorded: Mapping[str, Routing]
) -> Iterator[ConfigError]:
    """The tables that are behind under the configuration in force and cannot be filled (protocol 4.2)."""
    behind: dict[str, Routing] = {}
    for switch in switches.values():
        for name in switch.in_force_active:
            position = switch.positions[name]
            if position is not None and position.offset < switch.through:
                behind[name] = recorded[switch.in_force]
    for name, old in sorted(behind.items()):
        if reason := refuses(views[name], declared_schema(old, name, table_spec(views[name])), widened=False):
            yield ConfigError(
                f"table {name} has to take what came under the old settings first, and cannot be filled: {reason}",
                "take that off the table (ALTER TABLE): it then catches up, under the old settings or in this start",
            )


def _asked(anchors: Anchors, views: Mapping[str, TableView], name: str, writing: bool) -> list[ExporterError]:
    """What one table has against its part."""
    view = views.get(name)
    spec = anchors.lake.spec_of(name, view)
    declared = declared_schema(anchors.routing, name, spec)
    if view is None and declared is None:
        return []
    table, found = anchors.lake.table(name), list[ExporterError]()
    try:
        if view is None:
            change = Change((), {}, {}, create=declared, spec=spec)
        else:
            check_properties(name, view, anchors.lake.app)
            evolved = schema_change(view, declared, anchors.lake.type_widening)
            change = Change((), {}, {}, properties=evolved.properties, evolve=evolved.schema_json)
        table.rehearse(change, lambda now: None)
    except ConfigError as error:
        found.append(ConfigError(f"table {name}: {error.message}", error.hint))
    except ExporterError as error:
        found.append(error)
    except Exception as error:  # noqa: BLE001 - py4j raises its own kinds; whatever it was, nothing was changed
        found.append(Failed(table, error).said())
    if writing and (obstacle := table.store.unwritable(LOG_FOLDER)) is not None:
        found.append(type(obstacle)(f"table {name}: {obstacle.message}", obstacle.hint))
    return found
