"""Use cases of sessions: submission, change, preview, and external allocations."""
