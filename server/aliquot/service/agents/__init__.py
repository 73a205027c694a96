"""Agents: their messages, administration by operators, and the reaper, which repairs differences."""
