"""Envelopes: what a row is wrapped in, with what was done to it. A step that all formats share."""
