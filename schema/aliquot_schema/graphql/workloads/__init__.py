"""GraphQL API of sessions, previews and external allocations."""
