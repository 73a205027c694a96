"""A host as a node of a Ray cluster: its raylet, kept running."""
