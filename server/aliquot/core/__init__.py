"""What the server decides, as pure functions: no clock, no I/O, no randomness, no framework."""
