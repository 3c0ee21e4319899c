"""Exact ranges of offsets, read from the leader as whole record batches. Runs on Spark executors."""
