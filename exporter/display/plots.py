"""What a page draws: columns, lines and timelines over common axes, as SVG that is stretched to the page's width.

All words stand outside of what is stretched, so that a narrow page shows them in full size. Pure.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from exporter.display.html import Html, paragraph, table, text
from exporter.display.style import COLOURS
from exporter.display.units import number, short
from exporter.display.units import span as how_long

LABELS_MAX = 4
"""So many columns have each a label below; of more the first, the middle and the last."""
BINS = 60
"""Columns over a time."""
BINARY, SECONDS = 1024, 60
"""Bases of the units in which bytes and seconds are told: their ticks are round in these."""
_HEIGHT = 100.0
"""Of a plot, in its own units; it is 100 wide."""

Point = tuple[float, float]
Label = tuple[float, str, str]
"""What stands below a plot: per cent from its left, start, middle or end of the word there, the word."""


@dataclass(frozen=True)
class PlottedSpan:
    """Something that lasted, on a timeline. kind: chooses the colour, and stands in the key."""

    start: float
    end: float
    kind: str
    label: str = ""


@dataclass(frozen=True)
class PlottedMark:
    """Something that happened at a time. bad: shown in the colour of trouble."""

    at: float
    label: str
    bad: bool = False


@dataclass(frozen=True)
class Lane:
    """One row of a timeline: who, and what of him."""

    name: str
    spans: Sequence[PlottedSpan] = ()
    marks: Sequence[PlottedMark] = ()


def columns(
    bins: Sequence[tuple[str, Mapping[str, float]]],
    caption: str,
    shown: Callable[[float], str] = number,
    axis: Sequence[str] = (),
    bad: Collection[str] = (),
    base: int = 10,
) -> Html:
    """Stacked columns side by side: one per (label, {kind: value}), the kinds coloured in the order they are met.

    axis: what stands below from left to right, if not labels of columns. bad: kinds in the colour of trouble.
    base: 10, or BINARY.
    """
    if not bins:
        return paragraph("none", "faint")
    kinds = list(dict.fromkeys(kind for _, values in bins for kind in values))
    at = ticks(0.0, max(sum(values.values()) for _, values in bins), _whole(bins), base)
    width, colours = 100.0 / len(bins), _colours(kinds, bad)
    shapes = []
    for place, (label, values) in enumerate(bins):
        below = 0.0
        for kind in kinds:
            height = values.get(kind, 0.0) / at[-1] * _HEIGHT
            if height > 0:
                below += height
                shapes.append(
                    f'<rect x="{(place + 0.08) * width:.3f}" y="{_HEIGHT - below:.3f}" width="{width * 0.84:.3f}" '
                    f'height="{height:.3f}" fill="{colours[kind]}"><title>{text(label)}: {text(kind)} '
                    f"{text(shown(values[kind]))}</title></rect>"
                )
    sums = {kind: shown(sum(values.get(kind, 0.0) for _, values in bins)) for kind in kinds}
    key = {f"{kind}: {total}": colours[kind] for kind, total in sums.items()}
    under = _along(axis) if axis else _under([label for label, _ in bins])
    return _figure(caption, at, short if shown is number else shown, shapes, under, key)


def over_time(
    events: Iterable[tuple[float, str, float]],
    caption: str,
    shown: Callable[[float], str],
    within: tuple[float, float],
    bad: Collection[str] = (),
) -> Html:
    """Columns of equal width over a time. events: (ms since 1970, kind, amount). within: the first and the last ms.

    shown: a time as words. The kinds come in the order of their amounts, the largest first.
    """
    first, last = within
    width = max(1.0, (last - first + 1) / BINS)
    found: list[Counter[str]] = [Counter() for _ in range(BINS)]
    for at, kind, amount in events:
        found[int((at - first) / width)][kind] += amount  # type: ignore[assignment]
    kinds = [kind for kind, _ in sum(found, Counter()).most_common()]
    bins = [(shown(first + at * width), {kind: float(some[kind]) for kind in kinds}) for at, some in enumerate(found)]
    axis = [shown(first), shown((first + last) / 2), shown(last)]
    return columns(bins, f"{caption}, {how_long(width)} a column", axis=axis, bad=bad)


def lines(
    series: Mapping[str, Sequence[Point]],
    caption: str,
    x_shown: Callable[[float], str] = number,
    y_shown: Callable[[float], str] = short,
    steps: bool = False,
    base: int = 10,
) -> Html:
    """One line per series over common axes; the upright one begins at 0, or below it where a value does.

    steps: a value holds until the next point, instead of moving towards it. base: 10, or SECONDS.
    A single series has no key: the caption says what it is.
    """
    points = [point for found in series.values() for point in found]
    if not points:
        return paragraph("none", "faint")
    xs, ys = [x for x, _ in points], [y for _, y in points]
    left, right = min(xs), max(xs)
    at = ticks(min(0.0, *ys), max(ys), all(y == int(y) for y in ys), base)
    across, low, up = (right - left) or 1.0, at[0], at[-1] - at[0]
    shapes, colours = [], _colours(series)
    for name, found in series.items():
        drawn = [
            f"{(x - left) / across * 98 + 1:.2f},{_HEIGHT - (y - low) / up * _HEIGHT:.2f}"
            for x, y in (_stepped(sorted(found)) if steps else sorted(found))
        ]
        if len(drawn) == 1:  # a line of one point is not drawn
            drawn.append(drawn[0])
        shapes.append(f'<polyline points="{" ".join(drawn)}" stroke="{colours[name]}"/>')
    axis = [x_shown(left)] if left == right else [x_shown(left), x_shown((left + right) / 2), x_shown(right)]
    return _figure(caption, at, y_shown, shapes, _along(axis), colours if len(series) > 1 else {})


def ticks(low: float, high: float, whole: bool, base: int = 10) -> list[float]:
    """Round numbers at equal distances that reach from low to high: three to six. whole: no fractions between them."""
    high = max(high, low, 0.0) or 1.0
    unit = float(base ** int(math.log(high, base))) if base != 10 and high >= 1 else 1.0
    rough = (high - low) / unit / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    step = max(step, 1.0) * unit if whole and unit == 1 else step * unit
    return [place * step for place in range(math.floor(low / step), math.ceil(high / step - 1e-9) + 1)]


def timeline(lanes: Sequence[Lane], caption: str, shown: Callable[[float], str] = number) -> Html:
    """Who did what when: a lane each, spans in it, marks across it; the marks are listed below, in their order.

    Times are numbers of any unit. Spans of no length are drawn one pixel wide.
    """
    times = [at for lane in lanes for span in lane.spans for at in (span.start, span.end)]
    times += [mark.at for lane in lanes for mark in lane.marks]
    if not times:
        return paragraph("none", "faint")
    left, across = min(times), (max(times) - min(times)) or 1.0
    colours = _colours(span.kind for lane in lanes for span in lane.spans)

    def at(time: float) -> str:
        return f"{(time - left) / across * 100:.3f}%"

    made = []
    for lane in lanes:
        inner = ""
        for span in lane.spans:
            tip = f"{span.label or span.kind}, {shown(span.start)} to {shown(span.end)}"
            x, colour = at(span.start), colours[span.kind]
            inner += (
                f'<line x1="{x}" x2="{x}" y1="0" y2="100%" stroke="{colour}"/>'
                f'<svg x="{x}" width="{at(left + span.end - span.start)}" height="100%"><title>{text(tip)}</title>'
                f'<rect width="100%" height="100%" fill="{colour}"/><text x="4" y="68%">{text(span.label)}</text></svg>'
            )
        for mark in lane.marks:
            kind, x = "mark bad" if mark.bad else "mark", at(mark.at)
            tip = f"{shown(mark.at)} {mark.label}"
            inner += f'<line class="{kind}" x1="{x}" x2="{x}" y1="0" y2="100%"><title>{text(tip)}</title></line>'
        made.append(f'<div>{text(lane.name)}</div><svg class="lane">{inner}</svg>')
    ends = "".join(f"<span>{text(shown(left + across * part))}</span>" for part in (0, 0.5, 1))
    return Html(
        f"<figure><figcaption>{text(caption)}</figcaption>{_key(colours)}{''.join(made)}"
        f'<div class="ends">{ends}</div>{_marks(lanes, shown)}</figure>'
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


def _stepped(points: Sequence[Point]) -> Iterator[Point]:
    """The same points, and before each of them one at its time with the value that held until then."""
    for place, (x, y) in enumerate(points):
        if place:
            yield x, points[place - 1][1]
        yield x, y


def _figure(
    caption: str,
    at: Sequence[float],
    says: Callable[[float], str],
    shapes: Sequence[str],
    under: Sequence[Label],
    key: Mapping[str, str],
) -> Html:
    """A plot with its axes. at: the ticks, from below. key: as of _key."""
    low, up = at[0], at[-1] - at[0]
    heights = [_HEIGHT - (one - low) / up * _HEIGHT for one in at]
    grid = "".join(f'<line class="grid" x1="0" x2="100" y1="{y:.2f}" y2="{y:.2f}"/>' for y in heights)
    numbers = "".join(f"<span>{text(says(one))}</span>" for one in at)
    below = "".join(f'<text x="{x:.2f}%" y="1.1em" text-anchor="{end}">{text(word)}</text>' for x, end, word in under)
    return Html(
        f'<figure><figcaption>{text(caption)}</figcaption>{_key(key)}<div class="plot"><div class="ticks">{numbers}'
        f'</div><svg class="field" viewBox="0 0 100 {_HEIGHT:.0f}" preserveAspectRatio="none" role="img" '
        f'aria-label="{text(caption)}">{grid}{"".join(shapes)}</svg><svg class="below">{below}</svg></div></figure>'
    )


def _key(colours: Mapping[str, str]) -> str:
    """The key of a chart: which colour is what."""
    made = (
        f'<span><svg viewBox="0 0 1 1"><rect width="1" height="1" fill="{colour}"/></svg>{text(kind)}</span>'
        for kind, colour in colours.items()
    )
    return f'<div class="key">{"".join(made)}</div>' if colours else ""


def _colours(kinds: Iterable[str], bad: Collection[str] = ()) -> dict[str, str]:
    """One colour after the other, for those that are not bad."""
    others = itertools.count()
    named = dict.fromkeys(kinds)
    return {kind: "var(--bad)" if kind in bad else f"var(--c{next(others) % COLOURS})" for kind in named}


def _under(labels: Sequence[str]) -> list[Label]:
    """Each under the middle of its column; of many the first and the last at its outer edge, where there is room."""
    count = len(labels)
    middles = [((place + 0.5) / count * 100, "middle", label) for place, label in enumerate(labels)]
    if count <= LABELS_MAX:
        return middles
    return [(0.0, "start", labels[0]), middles[count // 2], (100.0, "end", labels[-1])]


def _along(axis: Sequence[str]) -> list[Label]:
    """From the left end to the right one."""
    ends = (("start",), ("start", "end"), ("start", "middle", "end"))[min(len(axis), 3) - 1]
    return [(place * 100 / max(1, len(axis) - 1), ends[place], word) for place, word in enumerate(axis)]


def _whole(bins: Iterable[tuple[str, Mapping[str, float]]]) -> bool:
    return all(value == int(value) for _, values in bins for value in values.values())
