"""The files of schemas that the settings name, as the configuration keeps them: text, Protobuf's in base64."""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Iterable
from pathlib import Path

from exporter.errors import ConfigError
from exporter.settings.format_tables import ValueFormatTable
from exporter.settings.problem import Problem


def read_schema_files(tables: Iterable[ValueFormatTable], problems: list[Problem]) -> dict[Path, str]:
    """Schema file -> its text; what cannot be read is added to `problems`.

    .avsc and .json: JSON without what says nothing, so that a file that is laid out anew is the same configuration.
    .desc and .proto: a FileDescriptorSet in base64, of a .proto one with all that it imports.
    """
    found: dict[Path, str] = {}
    for table in tables:
        for path in table.schema_files:
            try:
                found[path] = _read(path)
            except OSError as error:
                what = f"schema_files: {path} cannot be read: {error.strerror}"
                problems.append(Problem(what, "the path is relative to the TOML file"))
            except ValueError as error:
                problems.append(Problem(f"schema_files: {path} is no JSON: {error}", "compare it with its source"))
            except ConfigError as error:
                problems.append(Problem(f"schema_files: {path}: {error.message}", error.hint))
    return found


def _read(path: Path) -> str:
    """Raises OSError, ValueError for what is no JSON, ConfigError for what Protobuf cannot make sense of."""
    suffix = path.suffix.lower()
    if suffix == ".desc":
        return base64.b64encode(path.read_bytes()).decode()
    if suffix == ".proto":
        compiler = importlib.import_module("exporter.formats.protobuf.compile")  # it needs an extra
        return base64.b64encode(compiler.descriptor_set(path)).decode()
    return json.dumps(json.loads(path.read_text("utf-8")), separators=(",", ":"), ensure_ascii=False)
