"""Remote agents: the server's side of their connections, and the process that an agent runs in."""
