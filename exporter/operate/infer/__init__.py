"""What a topic's records look like, and the settings that follow: a sample, read, looked at, told and written down."""
