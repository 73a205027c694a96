"""Scheduler: the pure function `decide`, from a snapshot to a plan with a reason for every session that waits."""
