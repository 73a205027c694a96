"""Execution: agents that run jobs on nodes, and the transports between agents and the server."""
