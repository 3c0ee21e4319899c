"""What a path in a store is, where the storage takes no other. Pure."""

from __future__ import annotations


def require_plain(path: str) -> None:
    """Raises ValueError for a path that a store would have to normalise."""
    if not path.isprintable() or any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"{path!r} is no path below a store's root")
