"""Java, the jars, the session and the size of its batches."""
