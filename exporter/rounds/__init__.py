"""One round is one Spark job: exact offsets in, one manifest out; one round after the other."""
