"""`exporter catalog`: which statements register the tables, or registers them; and what `check` says of a catalog."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass

from exporter.aside import aside
from exporter.catalog.catalog import CatalogEntry, with_scheme
from exporter.catalog.names import catalog_name, clashes
from exporter.catalog.registrar import CatalogOutcome, Registrar
from exporter.catalog.statements import database_statement, statement
from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError, ExporterError
from exporter.finding import Finding
from exporter.lake.lake import Lake, stored_event_types, stored_jobs
from exporter.settings.model import Settings
from exporter.text import first_line
from exporter.workbench import registrar_of
from offsets.names import DERIVED_FOLDER, table_folder

WHAT = "catalog"
CHECK_SECS = 45.0
"""How long `check` waits for all tables; a task never waits."""


@dataclass(frozen=True)
class Statement:
    """One line of the answer. event_type: empty for the database's; of a derived table its folder."""

    event_type: str
    name: str
    text: str


def statements(settings: Settings, dialect: str, only: Collection[str] = ()) -> list[Statement]:
    """Those of all tables, or of some; of two that want one name, the first by its event type's name.

    Those of derived tables come after all others, where none of these is called so.

    Raises ConfigError, TableUnreadable.
    """
    found, database = _chosen(settings, only), settings.catalog_database
    told = [Statement("", database, database_statement(dialect, database))] if database else []
    for name, event_type in found.items():
        entry = CatalogEntry(name, with_scheme(settings.store.uri(table_folder(event_type))))
        told.append(Statement(event_type, name, statement(dialect, database, entry)))
    for job in () if only else stored_jobs(settings.store):
        if (name := catalog_name(job)) not in found:
            entry = CatalogEntry(name, with_scheme(settings.store.uri(f"{DERIVED_FOLDER}/{job}")))
            told.append(Statement(f"{DERIVED_FOLDER}/{job}", name, statement(dialect, database, entry)))
    return told


def left_out(settings: Settings) -> list[str]:
    """Sentences on the tables that have no statement, because another one has their name."""
    return [
        f"{', '.join(others)}: {name} stands for {first} already"
        for name, (first, *others) in clashes(stored_event_types(settings.store)).items()
    ]


def register_all(
    settings: Settings, lake: Lake, only: Collection[str] = ()
) -> Iterator[tuple[str, CatalogOutcome | str]]:
    """Register the tables now, one after the other: what became of each, or why it failed. Raises ConfigError."""
    registrar = registrar_of(settings, lake)
    if registrar is None:
        raise ConfigError("there is no catalog to register tables in", "set `catalog` and `catalog_database`")
    for event_type in _chosen(settings, only).values():
        try:
            yield event_type, registrar.register(event_type)
        except Exception as error:  # noqa: BLE001 - each client raises its own
            yield event_type, first_line(error)


def _chosen(settings: Settings, only: Collection[str]) -> dict[str, str]:
    """Name in the catalog -> event type."""
    known = sorted(stored_event_types(settings.store))
    if unknown := sorted({*only} - {*known}):
        raise ConfigError(f"there is no table of event type {unknown[0]!r}", f"there are: {', '.join(known)}")
    chosen: dict[str, str] = {}
    for name in known:
        if not only or name in only:
            chosen.setdefault(catalog_name(name), name)
    return chosen


def check_catalog(settings: Settings, lake: Lake, wait_secs: float = CHECK_SECS) -> Iterator[Finding]:
    """Whether it answers, which tables are in it, and which cannot be; nothing is registered. Nothing without one."""
    registrar = registrar_of(settings, lake)
    if registrar is None:
        return
    for name, types in clashes({DEAD_LETTERS, *settings.types, *lake.event_types()}).items():
        says = f"{' and '.join(types)} would both be {name}: the one that is registered first has the name"
        yield Finding(WHAT, "warn", says, "register the other by hand, under another name")
    looking = aside("catalog", lambda: _looked(registrar, lake))
    hint = "nothing waits for it: tasks export all the same, and register the tables when it answers"
    try:
        there, taken = looking.result(wait_secs)
    except TookTooLong:
        yield Finding(WHAT, "warn", f"no answer within {wait_secs:g} s", hint)
        return
    except Exception as error:  # noqa: BLE001 - each client raises its own
        yield Finding(WHAT, "warn", first_line(error), (isinstance(error, ExporterError) and error.hint) or hint)
        return
    known = len(lake.event_types())
    says = f"{settings.catalog}, database {settings.catalog_database}: {there} of {known} tables are registered"
    yield Finding(WHAT, "ok", says)
    for event_type, place in taken:
        says = f"{catalog_name(event_type)} stands for {place}, not for the table of {event_type}; it is left alone"
        yield Finding(WHAT, "warn", says, "use another `catalog_database`, or drop that table from the catalog")


def _looked(registrar: Registrar, lake: Lake) -> tuple[int, list[tuple[str, str]]]:
    """How many tables are there; of the others, the event type and the place for which the name stands."""
    found = [(name, registrar.place(name)) for name in lake.event_types()]
    taken = [(name, place.location) for name, place in found if place is not None and not place.is_ours]
    return sum(place is not None and place.is_ours for _, place in found), taken
