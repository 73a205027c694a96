"""Pictures, drawn from the code's own tables and from runs of the simulator."""
