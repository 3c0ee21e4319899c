"""What a column is of: one type, and the notations that it is read from and written in."""
