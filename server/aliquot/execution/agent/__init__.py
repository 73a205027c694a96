"""Agent: manages the devices of a node, runs kernels on them and reports their state."""
