"""GraphQL API of accounts, alerts, audit, operations and secrets."""
