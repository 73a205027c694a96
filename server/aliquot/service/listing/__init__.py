"""Lists of sessions: which, in which order, and from where on. Memory and the store read the same tables."""
