"""What runs in Spark's Python workers: route, decode, gather, stage."""
