"""What `exporter check` says of the schema registry: which ids are recorded, which columns would follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from exporter.column.ddl import ddl_of
from exporter.core.schemas import SchemaText
from exporter.errors import ConfigError, ExporterError
from exporter.finding import Finding
from exporter.formats.registered import places, registered
from exporter.registry.looking import Subject, look
from exporter.settings.model import Settings
from exporter.workbench import registry_options

WHAT = "schema registry"
SUBJECTS_MAX = 20
"""Looked at where the settings name none and none is called like a topic of theirs."""


def check_registry(settings: Settings) -> Iterator[Finding]:
    """Nothing where no registry is set; nothing is recorded by this."""
    options = registry_options(settings)
    if not options.is_there:
        return
    try:
        looked = look(options, settings.store, lambda there: wanted(settings, there))
    except ExporterError as error:
        yield Finding.of(WHAT, error)
        return
    says = f"{looked.url} has {looked.there} subjects; {looked.recorded} ids are recorded as {options.name}"
    yield Finding(WHAT, "ok", says)
    if not looked.subjects:
        hint = "whoever writes to the topics registers them: correct `[schema_registry]` if somebody does"
        yield Finding(WHAT, "warn", "it has no subject", hint)
    for subject in looked.subjects:
        yield from _of_subject(settings, subject)


def wanted(settings: Settings, there: Sequence[str]) -> Sequence[str]:
    """The subjects to be looked at: those of the settings, else those of their topics, else some."""
    if settings.schema_registry.subjects:
        return settings.schema_registry.subjects
    of_topics = {name for topic in settings.topics for name in (topic, f"{topic}-value")} & {*there}
    return sorted(of_topics or there)[:SUBJECTS_MAX]


def _of_subject(settings: Settings, subject: Subject) -> Iterator[Finding]:
    what = f"subject {subject.name}"
    if subject.newest is None:
        hint = "correct `[schema_registry] subjects`, unless it is still to come"
        yield Finding(what, "warn", "there is no such subject yet", hint)
        return
    if other := subject.ids("other"):
        hint = "it was wiped and filled anew, or is another one: see the handbook (formats), or set another `name`"
        yield Finding(what, "error", f"another schema is recorded under id {other}", hint)
    known, new = subject.ids("recorded"), subject.ids("new")
    parts = [f"recorded: {known}" if known else "", f"not recorded yet: {new}" if new else ""]
    yield Finding(what, "ok", "; ".join(part for part in parts if part) or "no id can be used")
    yield from _columns(settings, subject.newest, what)


def _columns(settings: Settings, schema: SchemaText, what: str) -> Iterator[Finding]:
    """Which event types would get which columns, by the newest version."""
    for place in places(schema):
        yield from _columns_of(settings, schema, place, what)


def _columns_of(settings: Settings, schema: SchemaText, place: str, what: str) -> Iterator[Finding]:
    try:
        found = registered(schema, place, settings.value_format.semantic_types)
    except ConfigError as error:
        yield Finding(what, "warn", f"it gives no columns: {error.message}", error.hint)
        return
    name = found.name
    if settings.type_from.kind == "schema":
        name = name.rpartition(".")[2] if settings.type_from.name == "short" else name
        name = f"event type {name}"
    yield Finding(what, "ok", f"columns of {name or 'its values'}: {', '.join(ddl_of(found.fields)) or 'none'}")
    for path, why in found.refused.items():
        yield Finding(what, "warn", f"{path} gets no column: {why}", "its values are kept in _rescued")
