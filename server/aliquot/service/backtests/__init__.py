"""Backtests: the recorded history run again under another policy, placement or cluster."""
