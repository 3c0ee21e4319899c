"""The files of schemas that the settings name, as the configuration keeps them: text, Protobuf's in base64."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from pathlib import Path

from exporter.errors import ConfigError
from exporter.settings.format_tables import ValueFormatTable
from exporter.settings.problem import Problem

_IMPORT = re.compile(r"""(?:^|(?<=;))\s*import\s+(?:public\s+|weak\s+)?["']([^"']+)["']\s*;""", re.MULTILINE)
_COMMENT = re.compile("//.*")
_GOOGLES = "google/protobuf/"
"""Names that begin so are of files that the compiler has itself."""


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
                what = f"schema_files: {error.filename or path} cannot be read: {error.strerror}"
                problems.append(Problem(what, "the path is relative to the TOML file"))
            except ValueError as error:
                what = "UTF-8" if isinstance(error, UnicodeDecodeError) else f"JSON: {error}"
                problems.append(Problem(f"schema_files: {path} is no {what}", "compare it with where it is from"))
            except ConfigError as error:
                problems.append(Problem(f"schema_files: {path}: {error.message}", error.hint))
    return found


def _read(path: Path) -> str:
    """Raises OSError, ValueError for what is no JSON, ConfigError for what Protobuf cannot make sense of."""
    suffix = path.suffix.lower()
    if suffix == ".desc":
        return base64.b64encode(path.read_bytes()).decode()
    if suffix == ".proto":
        from exporter.formats.protobuf.compile import descriptor_set

        return base64.b64encode(descriptor_set(with_imports(path), path.name)).decode()
    return json.dumps(json.loads(path.read_text("utf-8")), separators=(",", ":"), ensure_ascii=False)


def with_imports(path: Path) -> dict[str, str]:
    """The texts of a .proto file and of all that it imports, by the names by which they are imported.

    What is imported is looked for beside the first file and in the folders above it: one of them is where the names
    count from. Raises OSError, and ConfigError for one that is nowhere.
    """
    texts = {path.name: path.read_text("utf-8")}
    left = [path.name]
    while left:
        for name in _IMPORT.findall(_COMMENT.sub("", texts[left.pop()])):
            if name in texts or name.startswith(_GOOGLES):
                continue
            there = (folder / name for folder in path.absolute().parents)
            file = next((one for one in there if one.is_file()), None)
            if file is None:
                raise ConfigError(
                    f"it imports {name!r}, which is neither beside it nor below a folder above it",
                    "put it there, or give a descriptor set: protoc --include_imports --descriptor_set_out=x.desc",
                )
            texts[name] = file.read_text("utf-8")
            left.append(name)
    return texts
