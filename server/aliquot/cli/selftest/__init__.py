"""Self-test: checks on this machine's GPUs that jobs see only their devices and that memory limits hold."""
