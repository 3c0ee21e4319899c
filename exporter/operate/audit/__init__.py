"""Each offset where it must be, exactly once; shares no code with the export."""
