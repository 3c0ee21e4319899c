"""One file per verb; a noun has its verbs in one file."""
