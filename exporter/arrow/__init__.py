"""What a table can hold, as Arrow has it: leaves of a schema, dates and times, timestamps of Kafka."""
