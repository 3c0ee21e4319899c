"""Values that are one column each, as they are."""
