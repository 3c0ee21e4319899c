"""What Spark SQL makes of a value, one module per format: the audit's own second opinion."""
