"""The cluster as people see it: what waits, who holds what, what was used, and the rules."""
