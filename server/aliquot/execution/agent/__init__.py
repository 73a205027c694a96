"""The agent: owns devices of a node, starts kernels there and says what became of them."""
