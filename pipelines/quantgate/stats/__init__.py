"""Decisions about paired losses: exact tests, bounds, multiplicity and power.

Knows counts, levels and margins; knows nothing about where they come from. No I/O, no clock, no hidden randomness.
"""
