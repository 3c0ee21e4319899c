"""Small files made large, the log kept short, what nothing names taken away."""
