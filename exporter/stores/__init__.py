"""Where bytes go: Parquet data files, and the file system that holds them."""
