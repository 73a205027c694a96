"""Replay: passes of the ledger decided again, to see that they come out as they did."""
