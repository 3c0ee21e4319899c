"""Tokens that prove to Kafka's brokers who we are: where they come from, and how each client gets them."""
