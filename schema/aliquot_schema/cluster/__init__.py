"""Agents, the agent protocol, launch orders and the reaper's findings."""
