"""Files of the cache: there whole or not at all, and looked at before they are used.

    put(path, body)      a hidden file, synced, then renamed, then its folder synced
    note(folder, ...)    into verified.txt: "<sha256> <bytes> <file>" of what was found right, and "boot <id>"
    intact(folder)       whether all that was noted is there as it was

To read every jar at each start would take a second, and what is there by its right name was synced before. So a size
is enough, but for the first look after a start of the machine: then all is read once, for what other hands left, an
earlier version that did not sync, or the disk itself. Where this user may only read, as in an image, sizes are enough.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Another text after each start of the machine. Where a system does not tell, all its starts are one."""
VERIFIED = "verified.txt"
LINK = "-"
"""In place of the SHA-256 of what is a second name of a file outside the cache."""


@dataclass(frozen=True)
class Notes:
    """What verified.txt says: file name -> (sha256, bytes). fresh: since the machine was started."""

    files: Mapping[str, tuple[str, int]]
    fresh: bool


def put(path: Path, body: bytes) -> None:
    """Create or replace a file. Raises OSError."""
    hidden = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        hidden.write_bytes(body)
        into_place(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)


def into_place(made: Path, path: Path) -> None:
    """Give what was made beside it, a file, its final name. Raises OSError."""
    sync(made)
    os.replace(made, path)
    sync(path.parent)


def folder_into_place(made: Path, folder: Path) -> None:
    """Give a folder its final name, all in it on disk; of two that make it at once the second one finds it made.

    Raises OSError.
    """
    for path in (*made.rglob("*"), made):
        sync(path)
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
    sync(folder.parent)


def sync(path: Path) -> None:
    """A file's bytes, or the names in a folder, survive a power cut from here on. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def notes(folder: Path) -> Notes:
    """A spoilt line is skipped. Raises OSError, but for a file that is not there."""
    try:
        lines = (folder / VERIFIED).read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        lines = []
    parts = [line.split() for line in lines]
    files = {part[2]: (part[0], int(part[1])) for part in parts if len(part) == 3 and part[1].isdigit()}
    return Notes(files, ["boot", _boot()] in parts or not os.access(folder, os.W_OK))


def note(folder: Path, found: Mapping[str, str]) -> None:
    """Write down what was found right. found: name -> sha256. Raises OSError."""
    lines = [f"{sha256} {size(folder / name)} {name}" for name, sha256 in sorted(found.items())]
    put(folder / VERIFIED, "".join(f"{line}\n" for line in (f"boot {_boot()}", *lines)).encode())


def intact(folder: Path) -> bool:
    """Whether something was noted of a folder, and all of that is there as it was. Raises OSError."""
    known = notes(folder)
    if not known.files or any(size(folder / name) != length for name, (_, length) in known.files.items()):
        return False
    if not known.fresh:
        whole = {name: digest for name, (digest, _) in known.files.items()}
        if any(digest != LINK and sha256(folder / name) != digest for name, digest in whole.items()):
            return False
        note(folder, whole)
    return True


def size(path: Path) -> int:
    """Bytes of a file; -1 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def sha256(path: Path) -> str:
    """64 hex digits. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _boot() -> str:
    try:
        return BOOT_ID.read_text("utf-8").strip()
    except OSError:
        return "unknown"
