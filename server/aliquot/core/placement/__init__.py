"""Placement: which agents a session runs on; the cluster as arrays, scored by a strategy.

`scheduler.placer` uses it in a pass. `Scoreboard` on `ClusterArrays` works without devices and sessions.
"""
