"""Texts of .proto files -> descriptors, by Google's compiler. In the driver alone.

The compiler is a process of its own: it says what is wrong to its error output, and reads files, which are written to
a folder that goes afterwards. It belongs to the extra `protobuf`.

What AWS Glue's serialisers register spells the entries of maps out, which the compiler refuses: as messages with an
option that it alone may set. It gets a mark instead, and the option is set in what it makes.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from exporter.errors import ConfigError
from exporter.formats.protobuf.known import KNOWN

COMPILE_SECS = 60.0
"""How long the compiler may take."""
_ENTRY = re.compile(r"\boption\s+map_entry\s*=\s*true\s*;")
_MARK = "__map_entry"


class Uncompilable(ConfigError):
    """The compiler has read a text and refuses it: no other try would end otherwise."""


def descriptor_set(texts: Mapping[str, str], main: str = "") -> bytes:
    """The FileDescriptorSet of one text, with all that it imports; that text is its last file.

    texts: name, as imports call it -> text; Google's own and those of known.py need not be among them. main: the name
    of the one; else the last of the texts. Raises ConfigError with the compiler's words.
    """
    main = main or [*texts][-1]
    if importlib.util.find_spec("grpc_tools") is None:
        raise ConfigError(
            f"{main} is .proto text, and grpcio-tools, which compiles it, is not installed",
            "pip install 'kafka-delta-exporter[protobuf]', or give a descriptor set that protoc has made",
        )
    with tempfile.TemporaryDirectory(prefix="exporter-proto-") as folder:
        for name, text in {**KNOWN, **texts}.items():
            path = Path(folder, "in", _inside(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_ENTRY.sub(f'reserved "{_MARK}";', text), "utf-8")
        _compile(["-I", "in", "--include_imports", "--descriptor_set_out=set", main], main, folder)
        made = Path(folder, "set").read_bytes()
    return _with_entries(made) if _MARK.encode() in made else made


def _with_entries(made: bytes) -> bytes:
    """A set in which the messages with the mark are entries of maps."""
    found = importlib.import_module("google.protobuf.descriptor_pb2").FileDescriptorSet.FromString(made)
    for file in found.file:
        _set_entries(file.message_type)
    unmarked: bytes = found.SerializeToString(deterministic=True)
    return unmarked


def _set_entries(messages: Iterable[Any]) -> None:
    for message in messages:
        if _MARK in message.reserved_name:
            message.reserved_name.remove(_MARK)
            message.options.map_entry = True
        _set_entries(message.nested_type)


def _inside(name: str) -> str:
    """A name that stays in the folder, and that the compiler takes for no option."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.name or name.startswith(("-", "@")):
        raise ConfigError(f"{name!r} is no name of a .proto file", "use the name by which others import it")
    return str(path)


def _compile(arguments: list[str], main: str, folder: str) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", *arguments]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=COMPILE_SECS, check=False)
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{main} is not compiled after {COMPILE_SECS:.0f} s", "give a descriptor set") from None
    if done.returncode:
        words = " ".join(line.removeprefix("in/") for line in done.stderr.splitlines())
        words = words or f"the compiler ends with {done.returncode}"
        judged = done.returncode > 0 and done.stderr.strip() and "Traceback" not in done.stderr
        kind = Uncompilable if judged else ConfigError
        raise kind(f"{main} does not compile: {words}", "give every file that it imports, by its name")
