"""The verbs: parse, call, print, exit code."""
