"""Device plugins: discovery, measurement and partitioning of the devices of a node."""
