"""Where bytes go: Parquet data files, and the stores that hold them, one module per scheme."""
