"""One task, put together, and its loop, the one place that branches."""
