"""Starts servers: connects settings, store, agents, use cases and the HTTP API, and sets up the log of a process.

`composition` imports nearly all other packages, so this module imports none: agents only need the log.
"""
