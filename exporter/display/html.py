"""One self-contained HTML page: a verdict, tables, bars, and what plots.py draws; nothing is loaded.

What a caller gives is text and is escaped, whoever chose it; only what these functions returned (`Html`) goes in as
it is. Colours follow the reader's light or dark setting. Pure: no file, no clock.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence

from exporter.display.concerns import Concern, headline
from exporter.display.style import STYLE, policy
from exporter.display.units import number

WRAPPED_CHARS = 28
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


class Html(str):
    """Text that is HTML already: made here, from escaped parts."""

    __slots__ = ()


Cell = str | int | float | None
"""What a table shows: a number is set to the right, None is a dash, Html goes in as it is, all else is escaped."""


def text(value: object) -> Html:
    """Escaped; what cannot be seen or turns the writing around is shown as \\uXXXX."""
    seen = _UNSEEN.sub(lambda found: f"\\u{ord(found.group()):04x}", str(value))
    return Html(html.escape(seen))


def join(parts: Iterable[Html]) -> Html:
    """Several pieces of HTML, one after the other."""
    return Html("\n".join(parts))


def paragraph(words: object, kind: str = "") -> Html:
    """kind: "faint" for what explains, "bad" for what is wrong."""
    inner = words if isinstance(words, Html) else text(words)
    return Html(f'<p class="{text(kind)}">{inner}</p>' if kind else f"<p>{inner}</p>")


def verdict(concerns: Sequence[Concern], under_way: str = "") -> Html:
    """The one verdict: all well, under way, or what is to be looked at and the command that helps; notes below."""
    kind = "look" if any(one.bad for one in concerns) else "" if under_way else "well"
    said = [_concern(one) for one in sorted(concerns, key=lambda one: not one.bad)]
    listed = f"<ul>{''.join(said)}</ul>" if said else ""
    return Html(f'<div class="verdict {kind}"><b>{text(headline(concerns, under_way))}</b>{listed}</div>')


def _concern(one: Concern) -> str:
    command = f": <code>{text(one.helps)}</code>" if one.helps else ""
    kind = "" if one.bad else ' class="faint"'
    return f"<li{kind}>{text(one.what)}{command}</li>"


def tiles(figures: Iterable[tuple[str, Cell]]) -> Html:
    """The few figures that count, large: (name, value)."""
    made = (f"<div><b>{_cell(value)}</b><span>{text(name)}</span></div>" for name, value in figures)
    return Html(f'<div class="tiles">{"".join(made)}</div>')


def page(
    title: str,
    sections: Iterable[tuple[str, Html]],
    head: Html | None = None,
    tab: str = "",
    foot: Html | None = None,
    script: str = "",
) -> str:
    """The whole page. sections: heading and body. head: stands under the title. script: of ours, not a caller's.

    tab: the title of its window, if another. foot: stands at the end, behind all that a script replaces.
    """
    body = "".join(f"<section><h2>{text(heading)}</h2>\n{inner}\n</section>\n" for heading, inner in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(tab or title)}</title>\n<style>{STYLE}</style></head>\n"
        f"<body><main><h1>{text(title)}</h1>\n{head or ''}\n{body}</main>{foot or ''}"
        f"{f'<script>{script}</script>' if script else ''}</body></html>\n"
    )


def table(headers: Sequence[str], rows: Iterable[Sequence[Cell]], most: int = 500) -> Html:
    """A table; scrolls sideways by itself where the page is narrow. Of more than `most` rows the first are shown."""
    kept = list(rows)
    if not kept:
        return paragraph("none", "faint")
    numeric = [any(_is_number(row[column]) for row in kept) for column in range(len(headers))]
    marks = [' class="n"' if number else "" for number in numeric]
    top = "".join(f"<th{mark}>{text(name)}</th>" for name, mark in zip(headers, marks, strict=True))
    lines = [
        "<tr>" + "".join(_td(_cell(cell), mark) for cell, mark in zip(row, marks, strict=True)) + "</tr>"
        for row in kept[:most]
    ]
    made = f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>\n' + "\n".join(lines)
    return Html(made + "</tbody></table></div>" + left_out(len(kept), most))


def bars(rows: Iterable[tuple[str, float]], shown: Callable[[float], str] = number, most: int = 60) -> Html:
    """One horizontal bar per (label, value), its number beside it. Of more than `most` the first are shown."""
    kept = list(rows)
    if not kept:
        return paragraph("none", "faint")
    top = max(*(value for _, value in kept), 0.0) or 1.0
    made = [
        f'<div class="bar"><span>{text(shown(value))}</span>{text(label)}'
        f'<svg><rect width="{max(value, 0.0) / top * 100:.2f}%" height="100%" fill="var(--c0)"/></svg></div>'
        for label, value in kept[:most]
    ]
    return Html("\n".join(made) + left_out(len(kept), most))


def left_out(count: int, most: int) -> str:
    """What is said below the first ones."""
    return paragraph(f"and {count - most:,} more", "faint") if count > most else ""


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def _td(inner: Html, mark: str) -> str:
    """Words of any length are broken into lines; what is short, as a date or two, stays in one."""
    wrapped = ' class="w"' if len(inner) > WRAPPED_CHARS else ""
    return f"<td{mark or wrapped}>{inner}</td>"


def _cell(cell: Cell) -> Html:
    if isinstance(cell, Html):
        return cell
    if cell is None:
        return text("-")
    return text(number(cell) if isinstance(cell, (int, float)) and not isinstance(cell, bool) else cell)
