"""What runs in Spark's Python workers: route, decode, shape, gather, stage."""
