"""Values and rules read a second time, for whoever proves what was made of them.

No code of it is the export's: `formats`, `executor` and `shape` are none of the rooms that it may use.

readers/     bytes ── a document, or why there is none
contents/    a document ── the row that it must be
rules/       what the settings' rules make of it
codes.py     tables by number, and what else may become of a record
"""
