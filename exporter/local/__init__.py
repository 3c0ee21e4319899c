"""Servers, processes and plain readers on this machine, for the demo, the drill, tests, benchmark."""
