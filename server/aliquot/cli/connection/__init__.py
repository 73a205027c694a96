"""Connection to a server: which one, the output of its answers, and errors with exit codes."""
