"""The decision ledger in the database."""
