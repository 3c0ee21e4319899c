"""Servers and child processes on this machine, for the demo, the drill, tests and benchmark."""
