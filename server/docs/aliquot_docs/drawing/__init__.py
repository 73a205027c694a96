"""Pictures: drawn from tables of the code and from runs of the simulator."""
