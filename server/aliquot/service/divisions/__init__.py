"""What the cluster is divided into: pools of agents, and projects of people."""
