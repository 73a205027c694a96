"""Simulator: runs `decide` over a trace, with a clock that jumps from event to event."""
