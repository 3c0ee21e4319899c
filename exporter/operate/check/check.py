"""`exporter check`: would a task start here? Each line is ok, warn or error, with a hint.

Nothing that stays is written: a file under table_root is made and removed again, for nothing else tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

from exporter.core.columns import EVENT_TIME
from exporter.core.routing import DEAD_LETTERS
from exporter.core.rules_told import rules_told
from exporter.errors import ConfigError, DependencyUnreachable, ExporterError, TableUnreadable
from exporter.finding import Finding
from exporter.kafka.login import Greeting
from exporter.kafka.options import kafka_python_options
from exporter.kafka.topics import TopicReader
from exporter.lake.fillable import unfillable
from exporter.lake.lake import Lake
from exporter.lake.properties import check_properties
from exporter.lake.record_fields import other_column, record_fields
from exporter.lake.schema import keeps_event_time, refuses, schema_change
from exporter.lake.sizes import live_sizes
from exporter.lake.trial import tried
from exporter.listening import cannot_listen
from exporter.operate.catalog import check_catalog
from exporter.operate.check.control import check_control
from exporter.operate.check.events import check_events
from exporter.operate.check.executors import check_executors
from exporter.operate.check.registry import WHAT as REGISTRY
from exporter.operate.check.registry import check_registry
from exporter.operate.schema.outgrown import outgrown
from exporter.operate.status import fetch, server_url
from exporter.protocol.anchor import declared_schema
from exporter.settings.meaning import record_columns, table_options
from exporter.settings.model import Settings
from exporter.settings.table import Table
from exporter.spark import session as spark
from exporter.spark.jars import find_java, jar_paths
from exporter.stores.obstacles import in_the_way
from exporter.wal.dynamodb_calls import connect
from exporter.wal.dynamodb_table import create_table, look_at_table
from exporter.workbench import routing_of
from offsets.intents import WalMismatch, WalUnreachable
from offsets.partitions import Partition, Spec
from offsets.table_log import TableView

CERTIFICATE_DAYS_MIN = 14
"""A broker's certificate that ends sooner is told."""
VALUES_MAX = 100
"""Combinations of values in one day, or what else cuts a table, from which on its files are too many."""
OUTGROWN_ROWS = 10_000
"""Rows of a table with something in `_rescued` that are looked at."""


More = Callable[[Settings, Lake], Iterator[Finding]]


def _no_more(_settings: Settings, _lake: Lake) -> Iterator[Finding]:
    return iter(())


def check(
    settings: Settings,
    create_wal: bool = False,
    deep: bool = False,
    more: More = _no_more,
    create_control: bool = False,
) -> Iterator[Finding]:
    """Settings, Java, jars, brokers, topic, registry, log, executors, schemas, tables, in that order, as earlier allow.

    create_wal: make the log's table first. create_control: and the control topic; else nothing of this stays. deep:
    compare topics and tables too. more: what else is found of the lake, after its tables.
    """
    yield Finding("settings", "ok", f"app {settings.app}, {len(settings.declared)} event types")
    if not settings.declared and settings.new_type != "table":
        yield Finding("settings", "warn", "no event type is declared: every record becomes a dead letter",
                      "declare types in [types.<event type>]")  # fmt: skip
    java = _found("java", lambda: f"{find_java()}")
    yield java
    sets = ("spark", *settings.store.java.jar_sets)
    jars = _found("jars", lambda: f"{sum(len(jar_paths(name)) for name in sets)} jars, sha256 verified")
    yield jars
    yield from check_broker(settings, create_control)
    yield from check_registry(settings)
    yield from _registry_files(settings)
    yield from check_log(settings, create_wal)
    yield from _port(settings)
    storage = [*_storage(settings)]
    yield from storage
    is_out = storage[0].level == "error" and settings.store.trouble()
    if java.level == jars.level == "ok" and not is_out:
        yield from _tables(settings, deep, more)


def _found(what: str, find: Any) -> Finding:
    try:
        return Finding(what, "ok", find())
    except ExporterError as error:
        return Finding.of(what, error)


def check_broker(settings: Settings, create_control: bool = False) -> Iterator[Finding]:
    """Does a broker answer, and which of the topics are there."""
    try:
        reader = TopicReader(kafka_python_options(settings), settings.selection, settings.isolation)
    except ExporterError as error:
        yield Finding("brokers", "error", error.message, error.hint)
        return
    yield Finding("brokers", "ok", ",".join(settings.brokers))
    yield from _security(settings, reader.greeting)
    try:
        found = reader.require()
        for topic, identity in found.items():
            yield Finding("topic", "ok", f"{topic}, {len(identity.partitions)} partitions, id {identity.topic_id}")
        if not found:
            yield Finding("topic", "warn", f"no topic matches {reader.topics} yet", "create one, or correct it")
        for right in reader.missing_rights(settings.group):
            hint = "an administrator of the brokers grants it (kafka-acls.sh --add)"
            yield Finding("rights", "error", f"this user has not the right to {right}", hint)
        yield from check_control(settings, reader, create_control)
        yield from check_events(settings)
    except ExporterError as error:
        yield Finding("topic", "error", error.message, error.hint)
    finally:
        reader.close()


def _security(settings: Settings, greeting: Greeting | None) -> Iterator[Finding]:
    """How the connections to Kafka are kept, and what weakens that; nothing where no security is set."""
    client, what = settings.kafka_client, "security"
    if greeting is None:
        return
    expires = greeting.expires
    parts = [client.security_protocol, greeting.tls, f"user {greeting.user}" if greeting.user else ""]
    parts += [f"certificate until {expires:%Y-%m-%d}" if expires else ""]
    yield Finding(what, "ok", ", ".join(part for part in parts if part))
    if expires and expires - datetime.now(timezone.utc) < timedelta(days=CERTIFICATE_DAYS_MIN):
        says = f"the certificate of {greeting.broker} ends on {expires:%Y-%m-%d %H:%M} UTC"
        yield Finding(what, "warn", says, "renew it before: no connection is made after that")
    if not client.tls:
        yield Finding(what, "warn", "nothing is encrypted", "use SASL_SSL where others may listen")
    if (client.sasl_oauth_token_url or "").startswith("http:"):
        says = "the secret goes to the token endpoint as it is, for all to read"
        yield Finding(what, "warn", says, "use an endpoint that speaks https")
    if client.tls and not client.ssl_check_hostname:
        says = "whoever has any certificate of the authority may pass for a broker"
        yield Finding(what, "warn", says, "name the brokers as in their certificates and remove `ssl_check_hostname`")
    key = client.ssl_keyfile or client.ssl_certfile
    yield from _open_to_all(what, [key, *_holding(settings, "kafka_client", client)])


def _registry_files(settings: Settings) -> Iterator[Finding]:
    """Who may read the secrets for the schema registry."""
    table = settings.schema_registry
    holding = _holding(settings, "schema_registry", table)
    yield from _open_to_all(REGISTRY, [table.key_file or table.cert_file, *holding])


def _holding(settings: Settings, name: str, table: Table) -> Iterator[Path | None]:
    """The files that hold the secrets of a table; none holds one that the environment gives."""
    for secret in table.secrets():
        if path := getattr(table, f"{secret}_file"):
            yield path
        elif getattr(table, secret) and settings.origin(f"{name}.{secret}") == "default":
            yield settings.file


def _open_to_all(what: str, files: Sequence[Path | None]) -> Iterator[Finding]:
    """Of the files that hold a password or a key, as far as they are still there."""
    holding = dict.fromkeys(path for path in files if path)
    if readable := [str(path) for path in holding if path.is_file() and path.stat().st_mode & 0o007]:
        says = f"{', '.join(readable)} holds a secret and is open to every user of this machine"
        yield Finding(what, "warn", says, "chmod 600")


def check_log(settings: Settings, create: bool) -> Iterator[Finding]:
    """The write-ahead log's table: is it there, with the right keys, index and TTL."""
    what, table = "write-ahead log", settings.wal_table
    if not table:
        if create:
            yield Finding(what, "error", "there is no name for its table", "set `wal_table`")
        return
    try:
        calls = connect(settings.wal_endpoint)
        state = create_table(calls, table) if create else look_at_table(calls, table)
    except (WalUnreachable, WalMismatch) as error:
        hint = (
            "check `wal_endpoint`, AWS_REGION, the credentials and their rights: DescribeTable, DescribeTimeToLive and "
            "DescribeContinuousBackups here; GetItem, PutItem, Query and UpdateItem, also on the index, for a task"
        )
        yield Finding(what, "error", error.message, hint)
        return
    if state.missing:
        yield Finding(what, "error", f"there is no table {table}", "exporter check --create-wal makes it")
    elif not state.faults:
        yield Finding(what, "ok", f"table {table}, wal_mode {settings.wal_mode}")
    for fault in state.faults:
        hint = "exporter check --create-wal sets the TTL; a table with other keys or index cannot be used: name another"
        yield Finding(what, "error", f"table {table}: {fault}", hint)
    for advice in state.advice:
        yield Finding(what, "warn", f"table {table}: {advice}", "exporter check --create-wal turns it on")


def _port(settings: Settings) -> Iterator[Finding]:
    """May the health server listen; a task of this app that does already is told apart from others."""
    if not settings.http_port or not (why := cannot_listen(settings.http_host, settings.http_port)):
        return
    what, at = "http_port", f"{settings.http_host}:{settings.http_port}"
    try:
        app = fetch(server_url(settings)).get("app")
    except DependencyUnreachable:
        app = None
    if app == settings.app:
        yield Finding(what, "warn", f"a task of this app serves at {at}", "another one here needs another `http_port`")
    else:
        error = ConfigError(f"cannot listen on {at}: {why}", "choose another `http_port` or `http_host`")
        yield Finding.of(what, error)


def _storage(settings: Settings) -> Iterator[Finding]:
    """Can files be made under table_root (tried, with one that is removed), and is no file where a table has to be."""
    store = settings.store
    if (error := store.unwritable(sync=settings.sync)) is not None:
        yield Finding.of("table_root", error)
        return
    told = "".join(f", {name.replace('_', ' ')} {text}" for name, text in sorted(store.options.items()))
    yield Finding("table_root", "ok", f"{store.uri()}{told}")
    for found in in_the_way(store, (DEAD_LETTERS, *settings.types)):
        yield Finding.of("table_root", found)


def _tables(settings: Settings, deep: bool, more: More) -> Iterator[Finding]:
    java = settings.store.java
    session = spark.start(settings.deployment, "exporter check", short_lived=True, java=java)
    try:
        if (executors := check_executors(settings, session)) is not None:
            yield executors
            if executors.level == "error":
                return  # all that follows would wait for them
        schemas = _found("schemas", lambda: f"{_parsed(settings, session)} parsed")
        yield schemas
        if schemas.level == "ok":
            yield from check_tables(settings, session, more)
        if deep and schemas.level == "ok":
            from exporter.operate.check.deep import check_deep

            yield from check_deep(settings, session)
    finally:
        spark.stop(session)


def _parsed(settings: Settings, session: Any) -> int:
    return len(routing_of(settings, session).types)


def check_tables(settings: Settings, session: Any, more: More = _no_more) -> Iterator[Finding]:
    """Whether each table under the root is ours, can be filled, and holds what is declared or can be made to."""
    try:
        lake = Lake(session, settings.store, settings.app, settings.sync, table_options(settings))
    except ConfigError as error:
        yield Finding.of("table_root", error)
        return
    yield from _properties(lake)
    yield from check_catalog(settings, lake)
    configuration = routing_of(settings, session)
    for name, rules in rules_told(configuration).items():
        yield Finding(f"rules of {name}", "ok", "; ".join(rules))
    dead_letters = lake.table(DEAD_LETTERS).view() if DEAD_LETTERS in lake.event_types() else None
    in_force = dead_letters is not None and _in_force(dead_letters) == {configuration.fingerprint()}
    yield from _to_be_cut(lake)
    for name in lake.event_types():
        what = f"table {name}"
        yield from _outgrown(what, lake, name)
        if name not in configuration.active_types:
            says = "it is filled as it is met" if settings.new_type == "table" else "it is left as it is"
            yield Finding(what, "ok", f"not declared: {says}")
            continue
        try:
            view = lake.table(name).view()
            if view is None:
                continue
            check_properties(name, view, settings.app)
        except ExporterError as error:
            yield Finding(what, "error", error.message, error.hint)
        else:
            if (refused := lake.specs.refused(name, view)) is not None:
                yield Finding.of(what, refused)
                continue
            of_record = record_fields(record_columns(settings), configuration, name)
            if name != DEAD_LETTERS and (reason := other_column(view, of_record)):
                yield Finding(what, "error", f"it cannot be filled: {reason}", "other types go on")
                continue
            declared = declared_schema(configuration, name, lake.spec_of(name, view)) or ""
            yield _looked_at(what, view, declared, in_force, settings.type_widening)
            yield from check_values(what, partial(live_sizes, lake.table(name), view), lake.specs.of(name))
    yield from more(settings, lake)


def _outgrown(what: str, lake: Lake, name: str) -> Iterator[Finding]:
    """Columns whose values a wider type would hold; of a table that can be read, which others tell of."""
    try:
        view = lake.table(name).view() if name != DEAD_LETTERS else None
        found = outgrown(lake, name, view, OUTGROWN_ROWS) if view is not None else ()
    except TableUnreadable:
        return
    for one in found:
        says = f"column {one.path} ({one.column}) is outgrown: {one.outgrown:,} values or more are in _rescued instead"
        hint = "`type_widening = true` gives it the wider type of its schema from then on; see the handbook (tables)"
        yield Finding(what, "warn", says, hint)


def _properties(lake: Lake) -> Iterator[Finding]:
    """Whether a table can have the properties that the settings name, and who would not read it."""
    try:
        features = tried(lake)
    except ConfigError as error:
        yield Finding.of("table_properties", error)
        return
    if features:
        says = f"tables that are made from now on need readers that know {', '.join(features)}"
        yield Finding("table_properties", "warn", says, "see the handbook (tables) for what readers know")
    elif lake.options.properties:
        yield Finding("table_properties", "ok", ", ".join(sorted(lake.options.properties)))


def _to_be_cut(lake: Lake) -> Iterator[Finding]:
    """The tables that are not there yet and will be cut by values, of which nobody knows how many there are."""
    for name, spec in sorted(lake.specs.named.items()):
        if spec.identity and name not in lake.event_types():
            columns = ", ".join(spec.identity)
            says = f"it will be cut by {columns}: each combination of values is a file of its own at each commit"
            yield Finding(f"table {name}", "warn", says, "it cannot be changed later: cut by columns with few values")


def check_values(
    what: str, sizes: Callable[[], Mapping[Partition, Sequence[int]]], spec: Spec
) -> Iterator[Finding]:
    """Whether the columns that cut a table have too many values. sizes: of its live files."""
    if not spec.identity:
        return
    values: dict[int, int] = defaultdict(int)
    for partition in sizes():
        values[partition.key] += 1
    key = max(values, key=lambda one: values[one], default=0)
    if values[key] > VALUES_MAX:
        columns = ", ".join(spec.identity)
        when = f" in {replace(spec, identity=()).of_key(key).label}" if spec.time != "none" else ""
        says = f"{columns} has {values[key]:,} combinations of values{when}, each a file of its own at each commit"
        hint = "export into another `table_root` under another `app`, cut by columns with fewer values"
        yield Finding(what, "warn", says, hint)


def _in_force(dead_letters: TableView) -> set[str]:
    """The routing fingerprints that the partitions are exported under now."""
    return {history[max(history)] for history in dead_letters.routing_histories().values()}


def _looked_at(what: str, view: TableView, declared: str, in_force: bool, widens: bool) -> Finding:
    """One table. in_force: a start goes on with these settings and adds no column of theirs. widens: the setting."""
    hint = "nothing is written to it until that is taken off (ALTER TABLE); other types go on"
    if reason := refuses(view, declared) if in_force else unfillable(view):
        return Finding(what, "error", f"it cannot be filled: {reason}", hint)
    try:
        evolved = schema_change(view, declared, widens)
    except ConfigError as error:
        return Finding.of(what, error)
    if not keeps_event_time(view.schema_json):
        says = f"version {view.version}; its column {EVENT_TIME} is its own, so it keeps no event times"
        return Finding(what, "warn", says, "declare a column that repeats the event time's field")
    coming = f"; the next start adds to it: {', '.join(evolved.added)}" if evolved.added else ""
    if not evolved.widened:
        return Finding(what, "ok", f"version {view.version}{coming}")
    coming += f"; the next start widens {', '.join(evolved.widened)}"
    hint = "delta-rs 1.6, and DuckDB over it, refuses a table with widened columns: keep the types where they read it"
    return Finding(what, "warn", f"version {view.version}{coming}", hint)
