"""A first settings file: what is known of topics that nobody has described, as TOML that a person goes on with.

Never overwrites anything. A file that has some of the settings already (brokers, [kafka_client]) is completed: its text
stands in the new one as it is, and what it has is not written again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from exporter.errors import ConfigError
from exporter.settings.load import read_toml
from exporter.settings.reference import comment, toml_value
from offsets.names import table_folder

_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class FirstType:
    """columns: DDL, one text each; none: they come by themselves. hints: dotted path -> type. says: above all that.

    doubts: column -> what is said above it. rare: columns that are comments, for a person to decide.
    """

    columns: Sequence[str] = ()
    hints: Mapping[str, str] = field(default_factory=dict)
    says: str = ""
    doubts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rare: Sequence[str] = ()


@dataclass(frozen=True)
class First:
    """What is to stand in the file. scalars: setting -> value. tables: name of a table -> its settings.

    remarks: name of a setting or a table -> what is said above it. head: what the file is.
    """

    head: str
    scalars: Mapping[str, object]
    tables: Mapping[str, Mapping[str, object]]
    types: Mapping[str, FirstType]
    remarks: Mapping[str, str] = field(default_factory=dict)


def write_first(first: First, path: Path, base: Path | None, folder: Path | None) -> list[Path]:
    """Write the file, and with a folder a file for the columns of each type; what was written, the settings last.

    base: the file that is completed. Raises ConfigError, before anything is written, if one of them is there already.
    """
    if base is not None and base.absolute().parent != path.absolute().parent:
        what = f"{path} would complete {base}, whose paths are relative to its own folder"
        raise ConfigError(what, f"write it to {base.absolute().parent}")
    files = dict(_columns_files(first.types, folder))
    text = first_toml(first, base, {name: _relative(file, path) for name, file in files.items()})
    for one in (*files.values(), path):
        if one.exists() or one.is_symlink():
            raise ConfigError(f"{one} is there already: nothing was written", "name another file, or move it away")
    mode = base.stat().st_mode & 0o777 if base is not None else 0o666
    for name, file in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        _create(file, _columns_text(first.types[name]), 0o666)
    path.parent.mkdir(parents=True, exist_ok=True)
    _create(path, text, mode)
    return [*files.values(), path]


def first_toml(first: First, base: Path | None, columns_files: Mapping[str, str]) -> str:
    """The file's text. columns_files: event type -> the file with its columns, relative to this one.

    Raises ConfigError for a setting that the file that is completed has with another value.
    """
    there = read_toml(base) if base is not None else {}
    lines = [*comment(first.head), ""]
    for name, value in first.scalars.items():
        if name not in there:
            lines += [*comment(first.remarks.get(name, "")), f"{name} = {toml_value(value)}"]
        elif json.dumps(there[name], default=str) != json.dumps(value, default=str):
            raise ConfigError(f"{name} is {toml_value(there[name])} in {base} and {toml_value(value)} here",
                              f"correct it in {base}, or leave it out here")  # fmt: skip
    if base is not None:
        lines += ["", *comment(f"As it stood in {base.name}:"), "", base.read_text("utf-8").strip()]
    for name, table in first.tables.items():
        if name not in there:
            lines += ["", *comment(first.remarks.get(name, "")), f"[{name}]"]
            lines += [f"{key} = {toml_value(value)}" for key, value in table.items() if value != ""]
    known = there.get("types")
    for event_type, one in first.types.items():
        if not isinstance(known, dict) or event_type not in known:
            lines += ["", *_type_lines(event_type, one, columns_files.get(event_type, ""))]
    return "\n".join(lines) + "\n"


def _type_lines(event_type: str, one: FirstType, columns_file: str) -> Iterator[str]:
    yield from comment(one.says)
    yield f"[types.{toml_key(event_type)}]"
    if columns_file:
        yield f"columns_file = {toml_value(columns_file)}"
    elif one.columns:
        yield f'columns = """\n{_columns_text(one)}"""'
    else:
        yield 'evolve = "add"'
    if one.hints:
        yield f"[types.{toml_key(event_type)}.hints]"
        yield from (f"{toml_key(path)} = {toml_value(kind)}" for path, kind in one.hints.items())


def _columns_text(one: FirstType) -> str:
    """A column a line, below what is to be known of it.

    No name of a column has a character that TOML's texts of several lines would take otherwise.
    """
    last = next((column for column in reversed(one.columns) if column not in one.rare), "")
    lines = []
    for column in one.columns:
        lines += [f"-- {doubt}" for doubt in one.doubts.get(column, ())]
        lines.append(f"-- {column}," if column in one.rare else column if column == last else f"{column},")
    return "\n".join(lines) + "\n"


def _columns_files(types: Mapping[str, FirstType], folder: Path | None) -> Iterator[tuple[str, Path]]:
    for event_type, one in types.items():
        if folder is not None and one.columns:
            yield event_type, folder / f"{table_folder(event_type)}.ddl"


def _relative(file: Path, settings: Path) -> str:
    """A file as settings name it: from their folder on where it lies below."""
    folder, file = settings.absolute().parent, file.absolute()
    return str(file.relative_to(folder) if file.is_relative_to(folder) else file)


def toml_key(name: str) -> str:
    """A key as TOML takes it, quoted where it must be."""
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")


def _create(path: Path, text: str, mode: int) -> None:
    """Raises ConfigError if somebody was quicker."""
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}", "name another file") from error
