"""The one settings model: declared, filled, shown."""
