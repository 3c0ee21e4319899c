"""What a task tells of itself: sums, marks, outages, one snapshot per iteration, metrics, health."""
