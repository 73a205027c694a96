"""The decision ledger: every pass that decided something, with what it takes to decide it again."""
