"""The HTML page: nothing of a caller's text becomes markup, nothing is loaded, and empty input is shown as such."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from exporter.operate.report.html import (
    Html,
    Lane,
    Mark,
    Span,
    bars,
    columns,
    join,
    lines,
    page,
    paragraph,
    table,
    text,
    timeline,
)

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
    lane = Lane(name, [Span(0, 5, name, name), Span(5, 5, name)], [Mark(2, name), Mark(3, name, bad=True)])
    parts = [
        paragraph(name, "faint"), table((name, "number"), [(name, 1), (None, 2.5)]), bars([(name, 3), ("none", 0)]),
        columns([(name, {name: 1, "other": 2}), ("second", {})], name), lines({name: [(0, 1), (1, -2)], "b": []}, name),
        timeline([lane], name, lambda at: f"{name}{at}"),
    ]  # fmt: skip
    return page(name, [(name, join(parts))], paragraph(name))


def test_no_text_becomes_a_tag_and_every_tag_is_closed() -> None:
    """The hostile name stands on the page only escaped, at every place where a caller's text may stand."""
    made = everything(HOSTILE)
    tags = Tags()
    tags.feed(made)
    assert not tags.open and not tags.seen & {"script", "img", "link", "iframe"}
    assert not any(name.startswith("on") or name in ("src", "href") for name in tags.attributes)
    assert made.count("</style>") == 1 and made.encode()
    assert "\u202e" not in made and "\\u202e\\u0000\\ud800" in made
    harmless = Tags()
    harmless.feed(everything("plain"))
    assert harmless.seen == tags.seen and harmless.attributes == tags.attributes


def test_the_page_loads_nothing_and_fits_a_phone() -> None:
    """No address stands on it, its policy forbids all loading, and it says that it adapts to the width."""
    made = everything("orders")
    assert "default-src 'none'" in made and 'name="viewport"' in made and "prefers-color-scheme: dark" in made
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
    assert 'points="1.00,97.00 99.00,97.00 99.00,3.00"' in lines({"a": [(0, 0), (1, 5)]}, "c", steps=True)


def test_a_plot_of_equal_values_divides_by_nothing() -> None:
    """One point, only zeros, one moment: shown, not refused."""
    assert "polyline" in lines({"a": [(5, 0)]}, "c") and "<svg" in columns([("x", {"a": 0})], "c")
    assert "0.00%" in bars([("a", 0)]) and "lane" in timeline([Lane("a", [Span(1, 1, "k")])], "c")
