"""A disk that forgets: of a folder that lives on a real file system, what a power cut would leave of it.

    disk = Disk(folder)      what is there now is on disk
    disk.synced(path)        somebody has synced a file, or the names in a folder
    disk.cut(into)           the folder as it is after a power cut now

A file keeps the bytes of its last sync and a folder its names of then, and a file that was never synced is empty. With
luck, some of what came since is there as well: a name here, half a file there, in no order. That is as much as a file
system promises, and as little.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

Entry = tuple[int, bool]
"""Inode, and whether it is a folder."""


class Disk:
    """What is on disk, by inode."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: dict[int, dict[str, Entry]] = {}
        self._bytes: dict[int, bytes] = {}
        for path in (root, *root.rglob("*")):
            self.synced(path)

    def synced(self, path: Path) -> None:
        """Its bytes, or the names in it, are on disk."""
        inode = path.stat().st_ino
        if path.is_dir():
            self._names[inode] = _names(path)
        else:
            self._bytes[inode] = path.read_bytes()

    def cut(self, into: Path, luck: random.Random | None = None) -> Path:
        """Lay down what is left. luck: draws what else is there; None: nothing else is."""
        self._lay(self._root, self._root.stat().st_ino, into, luck)
        return into

    def _lay(self, path: Path | None, inode: int, into: Path, luck: random.Random | None) -> None:
        """path: where the folder is now; None if it is gone."""
        into.mkdir(parents=True)
        names, now = dict(self._names.get(inode, {})), _names(path) if path is not None else {}
        if luck is not None:
            names = {name: one for name, one in names.items() if now.get(name) == one or luck.random() < 0.5}
            names |= {name: one for name, one in now.items() if names.get(name) != one and luck.random() < 0.5}
        for name, (of, is_folder) in names.items():
            there = path / name if path is not None and now.get(name) == (of, is_folder) else None
            if is_folder:
                self._lay(there, of, into / name, luck)
            else:
                (into / name).write_bytes(self._left(there, of, luck))

    def _left(self, path: Path | None, inode: int, luck: random.Random | None) -> bytes:
        """path: where the file is now. Another file may have its inode since; that one was not synced then."""
        kept = self._bytes.get(inode, b"")
        if path is None:
            return kept
        now = path.read_bytes()
        if now == kept:
            return kept
        return b"" if luck is None else now[: luck.choice([0, len(now) // 2, len(now)])]


def _names(folder: Path) -> dict[str, Entry]:
    with os.scandir(folder) as entries:
        return {entry.name: (entry.inode(), entry.is_dir()) for entry in entries}
