"""Binary formats: cursors over a batch of values, and the columns that come of what they read. Runs on executors."""
