"""Agents that dial in: their server side, and the process that an agent runs in."""
