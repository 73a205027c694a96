"""Ray node: runs a host as a node of a Ray cluster."""
