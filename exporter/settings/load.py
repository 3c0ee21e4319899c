"""The settings of one run: flag > environment EXPORTER_* > TOML file > default, into the one model.

Whatever cannot be used is a ConfigError that says where it was given; unknown names are errors with the nearest
known one as a hint, and no message holds a secret. Never reads os.environ: the environment is an argument.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from exporter.errors import ConfigError
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.settings.derive_tables import DERIVE, KINDS, names_at
from exporter.settings.gone import GONE, refused, still_given
from exporter.settings.injected import without_injected
from exporter.settings.model import CONFIG_DEFAULT, HIDDEN, PREFIX, SCALARS, Settings, flag, variable
from exporter.settings.pem import pem_problems, registry_problems
from exporter.settings.problem import Problem
from exporter.settings.reference import EXAMPLE, reference
from exporter.settings.rules import broken
from exporter.settings.schema_files import read_schema_files
from exporter.settings.tables import FREE, NAMED, OF_VARIABLES, PATHS, TABLES

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

log = get_logger(__name__)

CONFIG_VARIABLE = "EXPORTER_CONFIG"
_SERVICES = ("KAFKA", "DYNAMODB", "REGISTRY", "S3", "GCS", "HDFS", "PROMETHEUS", "KERBEROS")
OF_TESTS = tuple(f"EXPORTER_TEST_{name}" for name in _SERVICES)
OTHER_VARIABLES = frozenset(
    {CONFIG_VARIABLE, *OF_TESTS, "EXPORTER_CACHE_DIR", "EXPORTER_CAREFUL"}
    | {"EXPORTER_FAULTS", "EXPORTER_FAULTS_TASK", "EXPORTER_CONTROL_LOSS"}
)
"""EXPORTER_ names that are not settings."""


@dataclass(frozen=True)
class _Given:
    """The layers, each setting name -> value as given. path: of the TOML file. assumed: what no layer has to give.

    file: with what the environment says of secrets in its tables; these are `secrets`: variable -> table and setting.
    """

    flags: Mapping[str, object]
    environment: Mapping[str, object]
    file: Mapping[str, object]
    path: str
    assumed: Mapping[str, object]
    secrets: Mapping[str, tuple[str, str]]

    @property
    def in_file(self) -> str:
        return f"in {self.path}"

    def merged(self) -> dict[str, object]:
        return {**self.assumed, **self.file, **self.environment, **self.flags}

    def origins(self) -> dict[str, str]:
        """Setting -> where its value came from; what no layer gives is left out."""
        return {
            **dict.fromkeys(self.file, f"file {self.path}"),
            **{f"{table}.{key}": f"environment {name}" for name, (table, key) in self.secrets.items()},
            **{name: f"environment {variable(name)}" for name in self.environment},
            **{name: f"flag {flag(name)}" for name in self.flags},
        }

    def spelled(self, name: str) -> str:
        """A scalar in the spelling in which it was given, value included."""
        value = self.merged().get(name)
        plain = isinstance(value, (str, int, float, datetime)) and name not in HIDDEN
        shown = repr(value) if plain else "..."
        shown = shown if len(shown) <= 80 else shown[:80] + "..."
        if name in self.flags:
            return f"{flag(name)} {shown}"
        if name in self.environment:
            return f"{variable(name)}={shown}"
        return f"{name} = {shown} {self.in_file}" if name in self.file else f"{name} (default)"


def load(
    config: Path | None,
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    assumed: Mapping[str, object] | None = None,
) -> Settings:
    """The settings of one run. Raises ConfigError with everything that is wrong.

    config: the TOML file; None: $EXPORTER_CONFIG, else ./exporter.toml. flags:
    setting name -> value as given, None = not given. environ: all environment variables; those
    that Kubernetes makes of Services' names are left out.
    assumed: setting or table -> value where no layer gives one; then there need be no file.
    """
    environ, flags = without_injected(environ), {name: value for name, value in flags.items() if value is not None}
    path = _config_path(config, environ, needed=assumed is None)
    secrets = {variable(name): at for name, at in OF_VARIABLES.items() if variable(name) in environ}
    file = _resolved(read_toml(path), path.parent) if path is not None else {}
    gone = still_given(file, str(path), environ, flags)
    file = {name: value for name, value in file.items() if name not in GONE}
    given = _Given(
        flags={name: value for name, value in flags.items() if name not in GONE},
        environment={name: environ[variable(name)] for name in SCALARS if variable(name) in environ},
        file=_with_secrets(file, {at: environ[name] for name, at in secrets.items()}),
        path=str(path or CONFIG_DEFAULT),
        assumed=assumed or {},
        secrets=secrets,
    )
    _refuse([*_unknown_names(given), *_unknown_variables(environ)])
    fine: dict[str, object] = {}
    try:
        settings = Settings.model_validate(given.merged(), context=fine)
    except ValidationError as error:
        problems = [_problem(detail, given) for detail in _all_errors(error, fine)]
    else:
        problems = [*refused(gone, settings), *pem_problems(settings.kafka_client)]
        problems += registry_problems(settings.schema_registry)
        declared = _read_columns(settings, problems)
        schemas = read_schema_files([settings.value_format, *settings.topic_formats.values()], problems)
    _refuse(problems)
    for one in gone:
        log.warning(Event.SETTING_GONE, setting=one.spelled, became=GONE[one.name].became)
    return settings.told(given.origins(), declared, path, schemas)


def _all_errors(error: ValidationError, fine: Mapping[str, object]) -> list[ErrorDetails]:
    """The model's errors, in its order. It compares settings with each other only where each is fine by itself.

    fine: the settings that are.
    """
    errors = error.errors(include_url=False, include_context=False)
    if fine.keys() < Settings.model_fields.keys():
        errors += [
            {"type": "value_error", "loc": (name,), "msg": reason, "input": None} for name, reason in broken(fine)
        ]
    order = list(Settings.model_fields)
    return sorted(errors, key=lambda one: order.index(str(one["loc"][0])))


def _config_path(config: Path | None, environ: Mapping[str, str], needed: bool) -> Path | None:
    """Raises ConfigError if there is no file that is needed: the tables stand in one only."""
    if config is None and environ.get(CONFIG_VARIABLE):
        config = Path(environ[CONFIG_VARIABLE])
    if config is None and not CONFIG_DEFAULT.is_file():
        if not needed:
            return None
        raise ConfigError(
            f"there is no settings file: neither --config nor {CONFIG_VARIABLE} names one, "
            f"and there is no {CONFIG_DEFAULT} in {Path.cwd()}",
            f"`exporter config --write-example > {CONFIG_DEFAULT}` writes one with every setting explained",
        )
    return config or CONFIG_DEFAULT


def read_toml(path: Path) -> dict[str, object]:
    try:
        table: dict[str, object] = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(f"the configuration {path} cannot be read: {reason}", "check --config") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: byte {error.start}", "save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}", f"compare it with what {EXAMPLE} prints") from None
    return table


def _resolved(table: Mapping[str, object], folder: Path) -> dict[str, object]:
    """The file's content with its relative paths joined to the file's folder."""
    resolved = dict(table)
    for name in {*TABLES, DERIVE} & table.keys():
        inner = table[name]
        if name in {*NAMED, DERIVE} and isinstance(inner, dict):
            resolved[name] = {one: _resolved_table(of_one, folder) for one, of_one in inner.items()}
        else:
            resolved[name] = _resolved_table(inner, folder)
    return resolved


def _with_secrets(file: Mapping[str, object], secrets: Mapping[tuple[str, str], str]) -> dict[str, object]:
    """The tables with the environment's secrets, however the file says them. secrets: (table, setting) -> value."""
    merged = dict(file)
    for table in {table for table, _ in secrets}:
        said = {key: value for (of, key), value in secrets.items() if of == table}
        names, inner = {key.removesuffix("_file") for key in said}, merged.get(table, {})
        if isinstance(inner, dict):
            kept = {key: value for key, value in inner.items() if key.removesuffix("_file") not in names}
            merged[table] = kept | said
    return merged


def _resolved_table(table: object, folder: Path) -> object:
    if not isinstance(table, dict):
        return table
    return {**table, **{name: _resolved_path(table[name], folder) for name in PATHS & table.keys()}}


def _resolved_path(given: object, folder: Path) -> object:
    """A path, or a list of paths."""
    if isinstance(given, list):
        return [_resolved_path(one, folder) for one in given]
    return folder / given if isinstance(given, str) else given


def _refuse(problems: list[Problem]) -> None:
    """Raises one ConfigError for all problems."""
    if problems:
        errors = [ConfigError(problem.what, problem.hint) for problem in problems]
        raise ConfigError.of(errors, "problems with the settings", f"{EXAMPLE} lists every setting")


def _unknown_names(given: _Given) -> Iterator[Problem]:
    """Top-level names that are no settings; those within tables are found by the model."""
    known = {name.rpartition(".")[2]: name for name, _, _ in reference()}
    known |= {name: name for name in Settings.model_fields}
    for name in given.file:
        if name not in Settings.model_fields:
            yield Problem(f"unknown setting {name!r} {given.in_file}", _did_you_mean(name, known))
    flags = {name: flag(name) for name in SCALARS}
    for name in given.flags:
        if name not in flags:
            yield Problem(f"unknown flag {flag(name)}", _did_you_mean(name, flags))


def _unknown_variables(environ: Mapping[str, str]) -> Iterator[Problem]:
    settings = {variable(name): variable(name) for name in (*SCALARS, *OF_VARIABLES)}
    tables = {variable(name): name for name in (*TABLES, DERIVE, *FREE)}
    gone = {*map(variable, GONE)}
    for name in sorted(environ):
        if not name.upper().startswith(PREFIX) or name in settings or name in OTHER_VARIABLES | gone:
            continue
        what = f"unknown environment variable {name}"
        if name in tables:
            yield Problem(what, f"[{tables[name]}] stands in the TOML file only")
        else:
            yield Problem(what, _did_you_mean(name.upper(), settings | {other: other for other in OTHER_VARIABLES}))


def _did_you_mean(name: str, known: Mapping[str, str]) -> str:
    """known: what to compare with -> what to show."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {known[near[0]]}?" if near else f"{EXAMPLE} lists every setting"


def _problem(error: ErrorDetails, given: _Given) -> Problem:
    """One error of the model in the user's words."""
    loc = [str(part) for part in error["loc"]]
    reason = error["msg"].removeprefix("Value error, ").replace("Input should", "should")
    if loc[0] in FREE:
        where = " ".join([f"[{loc[0]}]", *loc[1:]])
        return Problem(f"{where} {given.in_file}: {reason}", f"see [{loc[0]}] in what {EXAMPLE} prints")
    if loc[0] == DERIVE:
        return _derive_problem(loc, error["type"], reason, given)
    if loc[0] in TABLES:
        return _table_problem(loc, error["type"], reason, given)
    spellings = f"{flag(loc[0])}, {variable(loc[0])} or {loc[0]} {given.in_file}"
    if error["type"] == "missing":
        return Problem(f"{loc[0]} is missing", f"give {spellings}")
    return Problem(f"{given.spelled(loc[0])}: {reason}", f"change {spellings}")


def _table_problem(loc: list[str], kind: str, reason: str, given: _Given) -> Problem:
    """An error at [table], [table] key, [types.<event type>] or [types.<event type>] key."""
    depth = 2 if loc[0] in NAMED else 1
    table = f"[{'.'.join(loc[:depth])}]"
    where = " ".join([table, *loc[depth:]])
    shown = f"[{loc[0]}.<{NAMED[loc[0]]}>]" if loc[0] in NAMED else table
    hint = f"see {shown} in what {EXAMPLE} prints"
    if kind == "extra_forbidden":
        known = {name: name for name in TABLES[loc[0]].model_fields}
        hint = _did_you_mean(loc[-1], known)
        if loc[0] == "types":
            hint += '; an event type with a dot needs quotes: [types."a.b"]'
        return Problem(f"unknown setting {where} {given.in_file}", hint)
    if kind == "missing":
        return Problem(f"{where} is missing {given.in_file}", hint)
    return Problem(f"{where} {given.in_file}: {reason}", hint)


def _derive_problem(loc: list[str], kind: str, reason: str, given: _Given) -> Problem:
    """An error at [derive], [derive.<name>] or [derive.<name>] key; the model puts the kind behind the name."""
    table, of_kind, inner = f"[{'.'.join(loc[:2])}]", "".join(loc[2:3]), loc[3:]
    where = " ".join([table, ".".join(inner)]).strip()
    hint = f"see [{'.'.join([DERIVE, *filter(None, [of_kind])])}] in what {EXAMPLE} prints"
    if kind == "extra_forbidden":
        known = {name: name for name in names_at(of_kind, inner[:-1])}
        return Problem(f"unknown setting {where} {given.in_file}", _did_you_mean(inner[-1], known))
    if kind == "missing":
        return Problem(f"{where} is missing {given.in_file}", hint)
    if kind.startswith("union_tag"):
        return Problem(f"{table} kind {given.in_file} should be one of {', '.join(KINDS)}", hint)
    return Problem(f"{where} {given.in_file}: {reason}", hint)


def _read_columns(settings: Settings, problems: list[Problem]) -> dict[str, str]:
    """Event type -> DDL text; what cannot be read is added to `problems`."""
    declared = {}
    for name, table in settings.types.items():
        if table.columns is not None:
            declared[name] = table.columns
        if table.columns_file is None:
            continue
        try:
            declared[name] = table.columns_file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            what = f"[types.{name}] columns_file {table.columns_file} cannot be read: {reason}"
            problems.append(Problem(what, "the path is relative to the TOML file"))
        else:
            if not declared[name].strip():
                problems.append(Problem(f"[types.{name}] columns_file {table.columns_file} is empty", "write DDL"))
    return declared
