"""Events for those downstream: each version with rows, at least once, in the table's order."""
