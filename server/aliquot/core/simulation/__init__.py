"""The simulator: the one decision function over a trace, with a clock that jumps from event to event."""
