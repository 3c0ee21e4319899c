"""Pictures of the handbook: each .txt of lines and words becomes an .svg beside it, legible in light and dark.

    python -m tests.support.pictures        # makes all of them anew

A text is a grid. `┌┐└┘├┤┬┴┼─│` are lines, `▶◀▲▼` the ends of arrows, all else is text. What a box encloses is filled.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parents[2] / "deploy" / "handbook" / "pictures"
COLUMNS_MAX = 56
"""So that letters are still 12 pixels high on a telephone of 390."""
WIDTH, HEIGHT, MARGIN = 9, 19, 12
"""Of a character, and around the picture."""
WAYS = {
    "─": "EW", "│": "NS", "┌": "SE", "┐": "SW", "└": "NE", "┘": "NW", "├": "NSE", "┤": "NSW", "┬": "SEW", "┴": "NEW",
    "┼": "NSEW", "▶": "W", "◀": "E", "▲": "S", "▼": "N",
}  # fmt: skip
"""Where a line goes on from a character's middle: north, south, east, west."""
STEPS = {"N": (0, -0.5), "S": (0, 0.5), "E": (0.5, 0), "W": (-0.5, 0)}
HEADS = {
    "▶": ((-0.5, -0.3), (0.5, 0), (-0.5, 0.3)), "◀": ((0.5, -0.3), (-0.5, 0), (0.5, 0.3)),
    "▲": ((-0.6, 0.4), (0, -0.5), (0.6, 0.4)), "▼": ((-0.6, -0.4), (0, 0.5), (0.6, -0.4)),
}  # fmt: skip
STYLE = """
  text { font: 14px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #1b1f24; white-space: pre }
  path { stroke: #57606a; stroke-width: 1.5; fill: none } polygon { fill: #57606a }
  rect { fill: #dbe9f9 } .page { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } path { stroke: #9aa4af } polygon { fill: #9aa4af }
    rect { fill: #1d3350 } .page { fill: #0d1117 }
  }
"""


def at(x: float, y: float) -> str:
    """A place of the grid, in pixels."""
    return f"{MARGIN + x * WIDTH:g},{MARGIN + y * HEIGHT:g}"


def boxes(lines: list[str]) -> list[tuple[int, int, int, int]]:
    """Left, top, right and bottom of each box whose four sides are whole."""

    def char(x: int, y: int) -> str:
        return lines[y][x] if 0 <= y < len(lines) and 0 <= x < len(lines[y]) else " "

    found = []
    for top, line in enumerate(lines):
        for left in [x for x, one in enumerate(line) if one == "┌"]:
            right, bottom = left + 1, top + 1
            while char(right, top) in "─┬┴┼▼▲":
                right += 1
            while char(left, bottom) in "│├┤┼▶◀":
                bottom += 1
            if char(right, top) == "┐" and char(left, bottom) == "└" and char(right, bottom) == "┘":
                found.append((left, top, right, bottom))
    return found


def svg(text: str, title: str) -> str:
    """A picture. Raises ValueError if it is too wide for a telephone."""
    lines = text.rstrip("\n").split("\n")
    columns = max(map(len, lines))
    if columns > COLUMNS_MAX:
        raise ValueError(f"{title}: {columns} columns, at most {COLUMNS_MAX} are legible on a telephone")
    drawn, paths = [], []
    for left, top, right, bottom in boxes(lines):
        x, y = at(left + 0.5, top + 0.5).split(",")
        size = f'width="{(right - left) * WIDTH}" height="{(bottom - top) * HEIGHT}"'
        drawn.append(f'<rect x="{x}" y="{y}" {size} rx="3"/>')
    for y, line in enumerate(lines):
        for x, one in enumerate(line):
            for way in WAYS.get(one, ""):
                step_x, step_y = STEPS[way]
                paths.append(f"M{at(x + 0.5, y + 0.5)}L{at(x + 0.5 + step_x, y + 0.5 + step_y)}")
            if one in HEADS:
                corners = " ".join(at(x + 0.5 + dx, y + 0.5 + dy) for dx, dy in HEADS[one])
                drawn.append(f'<polygon points="{corners}"/>')
        for words in re.finditer(rf"[^\s{''.join(WAYS)}]+(?: [^\s{''.join(WAYS)}]+)*", line):
            x_text, y_text = at(words.start(), y + 0.72).split(",")
            length = len(words[0]) * WIDTH
            drawn.append(f'<text x="{x_text}" y="{y_text}" textLength="{length}">{escape(words[0])}</text>')
    width, height = 2 * MARGIN + columns * WIDTH, 2 * MARGIN + len(lines) * HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n"
        f'<rect class="page" width="{width}" height="{height}"/>\n' + "\n".join(
            [one for one in drawn if one.startswith("<rect")] + [f'<path d="{"".join(paths)}"/>']
            + [one for one in drawn if not one.startswith("<rect")]
        ) + "\n</svg>\n"
    )  # fmt: skip


def made(source: Path) -> str:
    """The picture of a file, whose first line is its title."""
    title, text = source.read_text("utf-8").split("\n", 1)
    return svg(text.lstrip("\n"), title)


if __name__ == "__main__":
    for source in sorted(FOLDER.glob("*.txt")):
        source.with_suffix(".svg").write_text(made(source), "utf-8")
