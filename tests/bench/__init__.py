"""Benchmarks: figures are measured here and never asserted in a timed test."""
