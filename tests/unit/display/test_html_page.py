"""The HTML page: nothing of a caller's text becomes markup, nothing is loaded, and empty input is shown as such."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from exporter.display.concerns import Concern
from exporter.display.html import Html, bars, join, page, paragraph, table, text, tiles, verdict
from exporter.display.plots import (
    BINARY,
    SECONDS,
    Lane,
    PlottedMark,
    PlottedSpan,
    columns,
    lines,
    over_time,
    ticks,
    timeline,
)
from exporter.display.style import STYLE, policy

HOSTILE = "</style></script><img src=x onerror=alert(1)>\"'&\u202e\x00\ud800"
VOID = {"meta", "img", "br", "rect", "polyline"}


class Tags(HTMLParser):
    """Every tag and attribute, and whether each one that is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID or (tag == "rect" and not self.get_starttag_text().endswith("/>")):  # type: ignore[union-attr]
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"


def everything(name: str) -> str:
    """A page on which the name stands wherever a caller's text may stand."""
    lane = Lane(
        name,
        [PlottedSpan(0, 5, name, name), PlottedSpan(5, 5, name)],
        [PlottedMark(2, name), PlottedMark(3, name, bad=True)],
    )
    parts = [
        paragraph(name, "faint"), table((name, "number"), [(name, 1), (None, 2.5)]), bars([(name, 3), ("none", 0)]),
        columns([(name, {name: 1, "other": 2}), ("second", {})], name), lines({name: [(0, 1), (1, -2)], "b": []}, name),
        timeline([lane], name, lambda at: f"{name}{at}"), tiles([(name, name), (name, 3)]),
        verdict([Concern(name, name), Concern(name, bad=False)], name), verdict([], name),
        over_time([(5.0, name, 2.0)], name, lambda at: f"{name}{at}", (0.0, 9.0), {name}),
    ]  # fmt: skip
    return page(name, [(name, join(parts))], paragraph(name), tab=name, foot=paragraph(name))


def test_no_text_becomes_a_tag_and_every_tag_is_closed() -> None:
    """The hostile name stands on the page only escaped, at every place where a caller's text may stand."""
    made = everything(HOSTILE)
    tags = Tags()
    tags.feed(made)
    assert not tags.open and not tags.seen & {"script", "img", "link", "iframe"}
    assert not any(name.startswith("on") or name in ("src", "href", "style") for name in tags.attributes)
    assert made.count("</style>") == 1 and made.encode()
    assert "\u202e" not in made and "\\u202e\\u0000\\ud800" in made
    harmless = Tags()
    harmless.feed(everything("plain"))
    assert harmless.seen == tags.seen and harmless.attributes == tags.attributes


def test_the_page_loads_nothing_and_fits_a_phone() -> None:
    """No address stands on it, its policy allows its own style sheet alone, and it says that it adapts to the width."""
    made = everything("orders")
    assert f'content="{policy()}"' in made and f"<style>{STYLE}</style>" in made and "unsafe" not in policy("x()")
    assert policy().startswith("default-src 'none'; style-src 'sha256-") and "script-src" not in policy()
    assert "script-src 'sha256-" in policy("x()") and 'name="viewport"' in made and "prefers-color-scheme: dark" in made
    assert not re.search(r"https?:|url\(|@import", made)


def test_numbers_are_grouped_and_nothing_to_show_is_said() -> None:
    """A column with a number is set to the right, too many rows are counted, and empty input says none."""
    made = table(("type", "rows"), [(f"t{one}", 1_234_567) for one in range(5)], most=2)
    assert made.count("1,234,567") == 2 and "and 3 more" in made and '<td class="n">' in made
    assert text("a<b") == "a&lt;b" and isinstance(text("a"), Html)
    assert "<b>" in table(("x",), [(Html("<b>y</b>"),)])
    for empty in (table(("a",), []), bars([]), columns([], "c"), lines({}, "c"), timeline([], "c")):
        assert "none" in empty and "<svg" not in empty


def test_a_wide_table_scrolls_by_itself_and_short_words_stay_in_one_line() -> None:
    """Its first column stays in sight, and a shade tells that there is more; only long words are broken."""
    made = page("p", [("s", table(("name", "days"), [("a", "2026-11-01 to 2026-11-21"), ("b", "word " * 9)]))])
    assert "overflow-x: auto" in made and "position: sticky" in made and "linear-gradient(to left" in made
    assert "<td>2026-11-01 to 2026-11-21</td>" in made and made.count('<td class="w">') == 1


def test_trouble_has_a_colour_of_its_own_and_steps_are_level() -> None:
    """The other kinds keep the first colours; a stepped line moves upright only."""
    made = columns([("x", {"failed": 1, "fine": 2})], "c", axis=["left", "right"], bad={"failed"})
    assert made.count("var(--bad)") == 2 and "var(--c0)" in made and "var(--c1)" not in made and ">right<" in made
    assert 'points="1.00,100.00 99.00,100.00 99.00,0.00"' in lines({"a": [(0, 0), (1, 4)]}, "c", steps=True)


def test_a_plot_of_equal_values_divides_by_nothing() -> None:
    """One point, only zeros, one moment: shown, not refused."""
    assert "polyline" in lines({"a": [(5, 0)]}, "c") and "<svg" in columns([("x", {"a": 0})], "c")
    assert "0.00%" in bars([("a", 0)]) and "lane" in timeline([Lane("a", [PlottedSpan(1, 1, "k")])], "c")


@pytest.mark.parametrize(
    ("low", "high", "whole", "base", "expected"),
    [
        (0, 0, True, 10, [0, 1]),
        (0, 1, True, 10, [0, 1]),
        (0, 58, True, 10, [0, 20, 40, 60]),
        (0, 12_345, True, 10, [0, 5_000, 10_000, 15_000]),
        (0, 0.3, False, 10, [0, 0.1, 0.2, 0.3]),
        (-2, 3, True, 10, [-2, 0, 2, 4]),
        (0, 3 << 20, True, BINARY, [0, 1 << 20, 2 << 20, 3 << 20]),
        (0, 100, False, SECONDS, [0, 30, 60, 90, 120]),
    ],
)
def test_numbers_on_an_axis_are_round_and_reach_beyond_the_values(low, high, whole, base, expected) -> None:
    """In the unit in which they are told: tens, KiB and MiB, minutes; never half a commit."""
    assert ticks(low, high, whole, base) == pytest.approx(expected)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 60])
def test_each_word_below_the_columns_stands_under_its_own(count: int) -> None:
    """Under the middle of the column; of many the first and the last at the outer edge of theirs."""
    days = [f"2026-11-{day:02d}" for day in range(1, count + 1)]
    made = columns([(day, {"a": 1}) for day in days], "c")
    drawn = re.findall(r'<rect x="([0-9.]+)" y="[0-9.]+" width="([0-9.]+)"', made)
    bars_at = [(float(x), float(x) + float(width)) for x, width in drawn]
    found = re.findall(r'<text x="([0-9.]+)%" y="1.1em" text-anchor="(\w+)">([^<]+)</text>', made)
    assert [word for _, _, word in found] == (days if count <= 4 else [days[0], days[count // 2], days[-1]])
    for x, anchor, word in found:
        left, right = bars_at[days.index(word)]
        middle = (left + right) / 2
        expected = {"middle": middle, "start": left, "end": right}[anchor]
        assert float(x) == pytest.approx(expected, abs=0.1 * (right - left))


def test_axes_have_numbers_from_below_to_above() -> None:
    """In the words of the values; the plot has a line for each."""
    made = columns([("a", {"x": 3 << 20})], "c", lambda value: f"{value / (1 << 20):.0f} MiB", base=BINARY)
    assert re.findall(r"<span>(\d MiB)</span>", made) == ["0 MiB", "1 MiB", "2 MiB", "3 MiB"]
    assert made.count('class="grid"') == 4


def test_the_verdict_says_what_needs_a_hand_first() -> None:
    """With the command that helps; what is only worth a note does not make it red, and stands below."""
    note = Concern("3 dead letters", "exporter dead-letters list", bad=False)
    bad = Concern("kafka is silent", "exporter check")
    assert verdict([]) == '<div class="verdict well"><b>all well</b></div>'
    assert verdict([note]).startswith('<div class="verdict well"><b>all well</b><ul><li class="faint">3 dead')
    made = verdict([note, bad], "it is starting")
    first = "<li>kafka is silent: <code>exporter check</code></li>"
    assert made.startswith(f'<div class="verdict look"><b>look at:</b><ul>{first}')
    assert "look at 2 things:" in verdict([bad, bad]) and "<b>it is starting</b>" in verdict([note], "it is starting")
