"""What a record's value is: from bytes to columns, or to a reason. One package per format."""
