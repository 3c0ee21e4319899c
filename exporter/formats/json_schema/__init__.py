"""JSON whose schema is known by the id in front of a value, or from a file."""
