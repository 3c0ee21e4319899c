"""Protobuf: descriptors in, a plan per message, and batches of messages read field by field."""
