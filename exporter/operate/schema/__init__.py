"""The columns of tables: where each came from, and what found none."""
