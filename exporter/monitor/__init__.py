"""What a task tells of itself: sums, marks, outages, one snapshot per passing, metrics, health."""
