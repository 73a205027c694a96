"""Ray transport: agents inside actors of a Ray cluster. Only the gateway's process imports Ray."""
