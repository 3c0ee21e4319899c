"""What the brokers say, and which partitions are this task's."""
