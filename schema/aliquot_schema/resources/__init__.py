"""Slots and their amounts, devices, leases and confinement."""
