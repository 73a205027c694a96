"""Use cases: requests of users, reports of agents, and scheduling on top of `core` and the store."""
