"""Pure decisions and their values: what is staged, due, read next, and what became of a commit."""
