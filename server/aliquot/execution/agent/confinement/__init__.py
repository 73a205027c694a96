"""Confinement: what holds a kernel to its limits, and what it sees of its node."""
