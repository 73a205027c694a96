"""Workspaces on an agent: their cache, their unpacking, and the environment that is activated before a command."""
