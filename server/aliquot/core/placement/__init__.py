"""Placement: where a session goes. The cluster as arrays, one strategy a file, and the placer that joins the two.

`Placer` is the entry for a pass; `Scoreboard` on a `Cluster` is the entry without devices and sessions.
"""
