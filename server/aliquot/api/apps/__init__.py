"""Web services of sessions, each at an origin of its own."""
