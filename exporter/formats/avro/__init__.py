"""Avro values: bare, in Confluent's frame, or as single objects."""
