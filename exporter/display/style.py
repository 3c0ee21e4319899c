"""The look of all pages: one style sheet, and the policy that lets a page use it and nothing else.

No element has a style of its own: what differs from one to the next are attributes of SVG, which no policy minds.
"""

from __future__ import annotations

import base64
import hashlib

COLOURS = 8
"""How many there are; the ninth series has the first one again."""

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --faint: #59636e; --rule: #d5dae0; --tint: #f3f5f7;
  --shade: #8a94a088; --bad: #c62828; --badtint: #fdecea; --good: #17703f; --goodtint: #e8f5ed; --c0: #1f6feb;
  --c1: #d9730d; --c2: #1a8754; --c3: #a1409b; --c4: #0b8a9b; --c5: #8a6d00; --c6: #6b4fd0; --c7: #7a7f87; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e6e9ed; --faint: #9aa4af; --rule: #363d46;
  --tint: #1e2329; --shade: #000c; --bad: #ff6b62; --badtint: #3a1f1f; --good: #6fd49a; --goodtint: #16301f;
  --c0: #6aa8ff; --c1: #ffa657; --c2: #56c98d; --c3: #dd8ad8; --c4: #4fc9da; --c5: #d6b84a; --c6: #a897ff;
  --c7: #a7adb5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 70rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; line-height: 1.2; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; } .faint, figcaption { color: var(--faint); font-size: .87rem; } a { color: var(--c0); }
.bad { color: var(--bad); font-weight: 600; } code { font: .92em ui-monospace, monospace; }
.verdict { border-left: 4px solid var(--rule); border-radius: 4px; background: var(--tint); padding: .5rem .8rem;
  margin: .7rem 0; } .verdict b { display: block; font-size: 1.1rem; }
.verdict b::first-letter { text-transform: uppercase; } .verdict ul { margin: .3rem 0; padding-left: 1.2rem; }
.verdict.well { border-color: var(--good); background: var(--goodtint); } .well b { color: var(--good); }
.verdict.look { border-color: var(--bad); background: var(--badtint); } .look b { color: var(--bad); }
.tiles { display: flex; flex-wrap: wrap; gap: .5rem; margin: .8rem 0; }
.tiles div { flex: 1 1 8rem; border: 1px solid var(--rule); border-radius: 6px; padding: .4rem .7rem; }
.tiles b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.tiles span { color: var(--faint); font-size: .87rem; }
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
  td:first-child { max-width: 9.5rem; min-width: 7rem; } }
tr:last-child td { border-bottom: 0; }
.n { text-align: right; white-space: nowrap; }
figure { margin: .6rem 0 1.2rem; } figcaption { margin-bottom: .3rem; }
.field, .below, .lane, .bar svg { display: block; width: 100%; overflow: visible; }
.below text { fill: var(--faint); font-size: .8rem; }
.plot { display: grid; grid-template-columns: auto minmax(0, 1fr); column-gap: .5rem; margin-top: .6rem; }
.field { height: 150px; background: var(--tint); border-radius: 4px; }
.below { grid-column: 2; height: 1.4rem; }
.ticks { display: flex; flex-direction: column-reverse; justify-content: space-between; text-align: right;
  color: var(--faint); font-size: .8rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
.ticks span { height: 0; line-height: 0; }
.grid { stroke: var(--rule); stroke-width: 1; vector-effect: non-scaling-stroke; }
polyline { fill: none; stroke-width: 2; stroke-linecap: round; vector-effect: non-scaling-stroke; }
.key { display: flex; flex-wrap: wrap; gap: .1rem 1rem; font-size: .87rem; margin: .2rem 0; }
.key svg { display: inline-block; width: .75em; height: .75em; margin-right: .4em; }
.bar { margin: .25rem 0; font-size: .87rem; } .bar span { float: right; padding-left: 1rem; }
.bar svg { clear: both; height: .7rem; background: var(--tint); border-radius: 3px; overflow: hidden; }
.lane { height: 1.5rem; margin-bottom: .35rem; background: var(--tint); border-radius: 3px; overflow: hidden; }
.lane text { fill: var(--paper); font-size: .72rem; } .lane .mark { stroke: var(--ink); stroke-width: 2; }
.lane .mark.bad { stroke: var(--bad); stroke-width: 3; }
.ends { display: flex; justify-content: space-between; gap: 1rem; color: var(--faint); font-size: .8rem; }
#lost { position: sticky; bottom: 0; margin: 0; padding: .5rem .8rem; background: var(--badtint); color: var(--bad);
  font-weight: 600; }
summary { cursor: pointer; font-size: .87rem; color: var(--faint); }
"""


def policy(script: str = "") -> str:
    """The Content-Security-Policy of a page: this style sheet, and the one script that it has, if any.

    Such a script may ask the page's own server, and nothing is loaded from anywhere.
    """
    rules = ["default-src 'none'", f"style-src '{_hash(STYLE)}'", "base-uri 'none'", "form-action 'none'"]
    if script:
        rules += [f"script-src '{_hash(script)}'", "connect-src 'self'"]
    return "; ".join(rules)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
