"""Foresight: when waiting sessions start, and which changes would help, by the real policy over possible futures."""
