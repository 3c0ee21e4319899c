"""The write-ahead log and the leases in DynamoDB: told, kept, compared with the tables."""
