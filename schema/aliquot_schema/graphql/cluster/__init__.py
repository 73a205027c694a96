"""GraphQL types and fields of agents, devices, the cluster, its history and its policy."""
