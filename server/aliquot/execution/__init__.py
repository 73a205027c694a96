"""Agents and the transports that reach them."""
