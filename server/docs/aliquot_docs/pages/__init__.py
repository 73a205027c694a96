"""Reference pages written from the code."""
