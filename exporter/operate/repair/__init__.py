"""Positions put right after an accident."""
