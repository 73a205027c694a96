"""Core: the decisions of the server as pure functions, without clock, I/O, randomness or framework."""
