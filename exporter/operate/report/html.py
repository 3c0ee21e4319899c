"""One self-contained HTML page: tables, bars, lines and timelines, without a script and without anything to load.

What a caller gives is text and is escaped, whoever chose it; only what these functions returned (`Html`) goes in as
it is. All words stand outside the plots, so that a narrow page shows them in full size. Colours follow the reader's
light or dark setting. Pure: no file, no clock.
"""

from __future__ import annotations

import html
import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

COLOURS = 8
"""How many there are; the ninth series has the first one again."""
WRAPPED_CHARS = 28
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_HEIGHT = 100.0
"""Of a plot, in its own units; it is 100 wide."""

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --faint: #59636e; --rule: #d5dae0; --tint: #f3f5f7;
  --shade: #8a94a088; --bad: #c62828; --c0: #1f6feb; --c1: #d9730d; --c2: #1a8754; --c3: #a1409b; --c4: #0b8a9b;
  --c5: #8a6d00; --c6: #6b4fd0; --c7: #7a7f87; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e6e9ed; --faint: #9aa4af; --rule: #363d46;
  --tint: #1e2329; --shade: #000c; --bad: #ff6b62; --c0: #6aa8ff; --c1: #ffa657; --c2: #56c98d; --c3: #dd8ad8;
  --c4: #4fc9da; --c5: #d6b84a; --c6: #a897ff; --c7: #a7adb5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 70rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; line-height: 1.2; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; } .faint, figcaption, .axis { color: var(--faint); font-size: .87rem; }
.bad { color: var(--bad); font-weight: 600; }
.wide { overflow-x: auto; margin: .6rem 0; border: 1px solid var(--rule); border-radius: 6px;
  background: linear-gradient(var(--paper), var(--paper)) right / 1.2rem 100% no-repeat local,
    linear-gradient(to left, var(--shade), transparent) right / 1.2rem 100% no-repeat scroll; }
table { border-collapse: collapse; width: 100%; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--rule);
  overflow-wrap: normal; }
th, td { white-space: nowrap; } th { background: var(--tint); }
td.w, td:first-child { white-space: normal; max-width: 15rem; overflow-wrap: break-word; } td.w { min-width: 8rem; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--paper); }
th:first-child { background: var(--tint); }
@media (max-width: 40rem) { body { padding: .7rem; } th, td { padding: .25rem .4rem; }
  td:first-child { max-width: 9.5rem; } }
tr:last-child td { border-bottom: 0; }
.n { text-align: right; white-space: nowrap; }
figure { margin: .6rem 0 1.2rem; } figcaption { margin-bottom: .3rem; }
svg { display: block; width: 100%; height: 150px; background: var(--tint); border-radius: 4px; }
.axis { display: flex; justify-content: space-between; gap: 1rem; }
.key { display: flex; flex-wrap: wrap; gap: .1rem 1rem; font-size: .87rem; margin: .2rem 0; }
.key i { display: inline-block; width: .75em; height: .75em; border-radius: 2px; margin-right: .4em; }
.bar { margin: .25rem 0; font-size: .87rem; } .bar span { float: right; padding-left: 1rem; }
.bar div, .lane { clear: both; background: var(--tint); border-radius: 3px; overflow: hidden; }
.bar div i { display: block; height: .7rem; }
.lane { position: relative; height: 1.5rem; margin-bottom: .35rem; }
.lane i { position: absolute; top: 0; bottom: 0; font-size: .72rem; font-style: normal; line-height: 1.5rem;
  color: var(--paper); white-space: nowrap; overflow: hidden; min-width: 1px; }
.lane b { position: absolute; top: 0; bottom: 0; width: 2px; margin-left: -1px; background: var(--ink); }
.lane b.bad { background: var(--bad); width: 3px; }
summary { cursor: pointer; font-size: .87rem; color: var(--faint); }
"""


class Html(str):
    """Text that is HTML already: made here, from escaped parts."""

    __slots__ = ()


Cell = str | int | float | None
"""What a table shows: a number is set to the right, None is a dash, Html goes in as it is, all else is escaped."""
Point = tuple[float, float]


@dataclass(frozen=True)
class Span:
    """Something that lasted, on a timeline. kind: chooses the colour, and stands in the key."""

    start: float
    end: float
    kind: str
    label: str = ""


@dataclass(frozen=True)
class Mark:
    """Something that happened at a time. bad: shown in the colour of trouble."""

    at: float
    label: str
    bad: bool = False


@dataclass(frozen=True)
class Lane:
    """One row of a timeline: who, and what of him."""

    name: str
    spans: Sequence[Span] = ()
    marks: Sequence[Mark] = ()


def text(value: object) -> Html:
    """Escaped; what cannot be seen or turns the writing around is shown as \\uXXXX."""
    seen = _UNSEEN.sub(lambda found: f"\\u{ord(found.group()):04x}", str(value))
    return Html(html.escape(seen))


def join(parts: Iterable[Html]) -> Html:
    """One after the other."""
    return Html("\n".join(parts))


def paragraph(words: object, kind: str = "") -> Html:
    """kind: "faint" for what explains, "bad" for what is wrong."""
    inner = words if isinstance(words, Html) else text(words)
    return Html(f'<p class="{text(kind)}">{inner}</p>' if kind else f"<p>{inner}</p>")


def page(title: str, sections: Iterable[tuple[str, Html]], head: Html | None = None) -> str:
    """The whole page. sections: heading and body. head: stands under the title."""
    body = "".join(f"<section><h2>{text(heading)}</h2>\n{inner}\n</section>\n" for heading, inner in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{STYLE}</style></head>\n"
        f"<body><h1>{text(title)}</h1>\n{head or ''}\n{body}</body></html>\n"
    )


def table(headers: Sequence[str], rows: Iterable[Sequence[Cell]], most: int = 500) -> Html:
    """A table; scrolls sideways by itself where the page is narrow. Of more than `most` rows the first are shown."""
    kept = list(rows)
    if not kept:
        return paragraph("none", "faint")
    numeric = [any(_is_number(row[column]) for row in kept) for column in range(len(headers))]
    marks = [' class="n"' if number else "" for number in numeric]
    top = "".join(f"<th{mark}>{text(name)}</th>" for name, mark in zip(headers, marks, strict=True))
    lines_ = [
        "<tr>" + "".join(_td(_cell(cell), mark) for cell, mark in zip(row, marks, strict=True)) + "</tr>"
        for row in kept[:most]
    ]
    made = (
        f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>\n'
        + "\n".join(lines_)
        + "</tbody></table></div>"
    )
    left_out = len(kept) - most
    return Html(made + (paragraph(f"and {left_out:,} more", "faint") if left_out > 0 else ""))


def bars(rows: Iterable[tuple[str, float]], shown: Callable[[float], str] | None = None, most: int = 60) -> Html:
    """One horizontal bar per (label, value), its number beside it. Of more than `most` the first are shown."""
    kept, says = list(rows), shown or _number
    if not kept:
        return paragraph("none", "faint")
    top = max(*(value for _, value in kept), 0.0) or 1.0
    made = [
        f'<div class="bar"><span>{text(says(value))}</span>{text(label)}'
        f'<div><i style="width:{max(value, 0.0) / top * 100:.2f}%;background:var(--c0)"></i></div></div>'
        for label, value in kept[:most]
    ]
    left_out = len(kept) - most
    return Html("\n".join(made) + (paragraph(f"and {left_out:,} more", "faint") if left_out > 0 else ""))


def columns(
    bins: Sequence[tuple[str, Mapping[str, float]]],
    caption: str,
    shown: Callable[[float], str] | None = None,
    axis: Sequence[str] = (),
    bad: Collection[str] = (),
) -> Html:
    """Stacked columns side by side: one per (label, {kind: value}), the kinds coloured in the order they are met.

    axis: what stands below from left to right, if not some of the labels. bad: kinds in the colour of trouble.
    """
    if not bins:
        return paragraph("none", "faint")
    says, kinds = shown or _number, list(dict.fromkeys(kind for _, values in bins for kind in values))
    top = max(sum(values.values()) for _, values in bins) or 1.0
    width, colours = 100.0 / len(bins), _colours(kinds, bad)
    shapes = []
    for number, (label, values) in enumerate(bins):
        below = 0.0
        for kind in kinds:
            height = values.get(kind, 0.0) / top * (_HEIGHT - 4)
            if height > 0:
                below += height
                shapes.append(
                    f'<rect x="{(number + 0.08) * width:.3f}" y="{_HEIGHT - below:.3f}" width="{width * 0.84:.3f}" '
                    f'height="{height:.3f}" style="fill:{colours[kind]}"><title>{text(label)}: {text(kind)} '
                    f"{text(says(values[kind]))}</title></rect>"
                )
    sums = {kind: says(sum(values.get(kind, 0.0) for _, values in bins)) for kind in kinds}
    key = {f"{kind}: {total}": colours[kind] for kind, total in sums.items()}
    return _figure(caption, f"highest: {says(top)}", shapes, axis or _few([label for label, _ in bins]), key)


def lines(
    series: Mapping[str, Sequence[Point]],
    caption: str,
    x_shown: Callable[[float], str] | None = None,
    y_shown: Callable[[float], str] | None = None,
    steps: bool = False,
) -> Html:
    """One line per series over common axes; the upright one begins at 0, or below it where a value does.

    steps: a value holds until the next point, instead of moving towards it.
    """
    points = [point for found in series.values() for point in found]
    if not points:
        return paragraph("none", "faint")
    xs, ys = [x for x, _ in points], [y for _, y in points]
    left, right, low, high = min(xs), max(xs), min(0.0, min(ys)), max(ys)
    across, up = (right - left) or 1.0, (high - low) or 1.0
    shapes, colours = [], _colours(series)
    for name, found in series.items():
        at = [
            f"{(x - left) / across * 98 + 1:.2f},{_HEIGHT - 3 - (y - low) / up * (_HEIGHT - 6):.2f}"
            for x, y in (_stepped(sorted(found)) if steps else sorted(found))
        ]
        if len(at) == 1:  # a line of one point is not drawn
            at.append(at[0])
        shapes.append(
            f'<polyline points="{" ".join(at)}" style="fill:none;stroke:{colours[name]};stroke-width:2;'
            'stroke-linecap:round" vector-effect="non-scaling-stroke"/>'
        )
    says_x, says_y = x_shown or _number, y_shown or _number
    axis = [says_x(left)] if left == right else [says_x(left), says_x((left + right) / 2), says_x(right)]
    return _figure(caption, f"{says_y(low)} to {says_y(high)}", shapes, axis, colours)


def _stepped(points: Sequence[Point]) -> Iterator[Point]:
    """The same points, and before each of them one at its time with the value that held until then."""
    for number, (x, y) in enumerate(points):
        if number:
            yield x, points[number - 1][1]
        yield x, y


def timeline(lanes: Sequence[Lane], caption: str, shown: Callable[[float], str] | None = None) -> Html:
    """Who did what when: a lane each, spans in it, marks across it; the marks are listed below, in their order.

    Times are numbers of any unit. Spans of no length are drawn one pixel wide.
    """
    says = shown or _number
    times = [at for lane in lanes for span in lane.spans for at in (span.start, span.end)]
    times += [mark.at for lane in lanes for mark in lane.marks]
    if not times:
        return paragraph("none", "faint")
    left, across = min(times), (max(times) - min(times)) or 1.0
    colours = _colours(span.kind for lane in lanes for span in lane.spans)
    made = []
    for lane in lanes:
        inner = ""
        for span in lane.spans:
            tip = f"{span.label or span.kind}, {says(span.start)} to {says(span.end)}"
            inner += (
                f'<i style="left:{(span.start - left) / across * 100:.3f}%;'
                f'width:{(span.end - span.start) / across * 100:.3f}%;background:{colours[span.kind]}" '
                f'title="{text(tip)}">&nbsp;{text(span.label)}</i>'
            )
        for mark in lane.marks:
            kind = ' class="bad"' if mark.bad else ""
            where = f"left:{(mark.at - left) / across * 100:.3f}%"
            inner += f'<b{kind} style="{where}" title="{text(says(mark.at))} {text(mark.label)}"></b>'
        made.append(f'<div>{text(lane.name)}</div><div class="lane">{inner}</div>')
    axis = "".join(f"<span>{text(says(left + across * part))}</span>" for part in (0, 0.5, 1))
    return Html(
        f"<figure><figcaption>{text(caption)}</figcaption>{_key(colours)}{''.join(made)}"
        f'<div class="axis">{axis}</div>{_marks(lanes, says)}</figure>'
    )


def _marks(lanes: Sequence[Lane], says: Callable[[float], str]) -> str:
    """All marks in the order of their times, folded away: a phone has no pointer to rest on them."""
    found = sorted(((mark, lane.name) for lane in lanes for mark in lane.marks), key=lambda item: item[0].at)
    if not found:
        return ""
    rows = [
        (says(mark.at), name, Html(f'<span class="bad">{text(mark.label)}</span>') if mark.bad else mark.label)
        for mark, name in found
    ]
    return f"<details><summary>{len(found):,} marks</summary>{table(('time', 'lane', 'mark'), rows)}</details>"


def _figure(caption: str, scale: str, shapes: Sequence[str], axis: Sequence[str], key: Mapping[str, str]) -> Html:
    """A plot that is stretched to the page's width; what is written stands around it. key: as of _key."""
    under = "".join(f"<span>{text(label)}</span>" for label in axis)
    return Html(
        f"<figure><figcaption>{text(caption)} ({text(scale)})</figcaption>{_key(key)}"
        f'<svg viewBox="0 0 100 {_HEIGHT:.0f}" preserveAspectRatio="none" role="img" aria-label="{text(caption)}">'
        f'{"".join(shapes)}</svg><div class="axis">{under}</div></figure>'
    )


def _key(colours: Mapping[str, str]) -> str:
    """Which colour is what."""
    made = (f'<span><i style="background:{colour}"></i>{text(kind)}</span>' for kind, colour in colours.items())
    return f'<div class="key">{"".join(made)}</div>' if colours else ""


def _colours(kinds: Iterable[str], bad: Collection[str] = ()) -> dict[str, str]:
    """One colour after the other, for those that are not bad."""
    others = itertools.count()
    named = dict.fromkeys(kinds)
    return {kind: "var(--bad)" if kind in bad else f"var(--c{next(others) % COLOURS})" for kind in named}


def _few(labels: Sequence[str]) -> list[str]:
    """The first, the middle and the last."""
    return [labels[at] for at in sorted({0, len(labels) // 2, len(labels) - 1})]


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
    return text(_number(cell) if isinstance(cell, (int, float)) and not isinstance(cell, bool) else cell)


def _number(number: float) -> str:
    """Grouped by thousands; a fraction with two digits."""
    if isinstance(number, int) or (math.isfinite(number) and number == int(number)):
        return f"{int(number):,}"
    return f"{number:,.2f}"
