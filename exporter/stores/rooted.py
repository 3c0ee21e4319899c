"""What stores have in common whose places are called by a root, a slash and a path, which nobody normalises. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar
from urllib.parse import unquote

from exporter.errors import ConfigError, DependencyUnreachable, ExporterError

_S = TypeVar("_S", bound="RootedStore")

NORMALISED = frozenset(("", ".", ".."))
"""Parts of a path that mean another path."""


@dataclass(frozen=True)
class RootedStore:
    """A store whose tables are below one root, by plain paths."""

    root: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def at(cls: type[_S], root: str, options: Mapping[str, str] | None = None) -> _S:
        """The store at a root. Raises ValueError for what is none of its kind."""
        raise NotImplementedError

    def size(self, path: str) -> int | None:
        """Implements `Store.size`: bytes of a file; None if there is none."""
        raise NotImplementedError

    def uri(self, path: str = "") -> str:
        if path:
            require_plain(path)
        return f"{self.root}/{path}" if path else self.root

    def below(self: _S, folder: str) -> _S:
        return replace(self, root=self.uri(folder))

    def live_size(self, path: str) -> int | None:
        plain = unquote(path)
        if "://" not in path:
            return self.size(plain)
        above, _, name = plain.rpartition("/")
        return self.at(above, self.options).size(name)

    def has_file(self, path: str) -> bool:
        return self.size(path) is not None

    def require_same_names(self, encoding: Callable[[], str | None], values: bool = False) -> None:
        """Names are UTF-8 for everybody."""


def require_plain(path: str) -> None:
    """Raises ValueError for a path that a store would have to normalise."""
    if not path.isprintable() or not NORMALISED.isdisjoint(path.split("/")):
        raise ValueError(f"{path!r} is no path below a store's root")


def not_written(where: object, reason: str, hint: str = "") -> ExporterError:
    """That nothing can be written somewhere. hint: what a person has to do about it; empty where waiting may help."""
    what = f"nothing can be written to {where}: {reason}"
    if hint:
        return ConfigError(what, hint)
    return DependencyUnreachable(what, "start again when it can; all goes on from the tables")
