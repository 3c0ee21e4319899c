"""Text of others on a terminal: nothing in it may move the cursor, change a colour or turn the writing around. Pure."""

from __future__ import annotations


def readable(raw: bytes | None, bytes_max: int) -> str | None:
    """Bytes as text that no terminal acts upon: what is no UTF-8, and what is not printed, stands as an escape."""
    if raw is None:
        return None
    text = escaped(raw[:bytes_max].decode("utf-8", "backslashreplace"))
    return text if len(raw) <= bytes_max else f"{text}... ({len(raw):,} bytes)"


def escaped(text: str) -> str:
    """Text with what is not printed as an escape: control characters, ends of lines, marks that turn writing around."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
