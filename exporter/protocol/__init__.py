"""Every commit to a table while records are exported, and the way back from the tables to writers."""
