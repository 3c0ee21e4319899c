"""One HTML page of what a lake holds."""
