"""Decision ledger: every pass that decided something, with the inputs needed to replay it."""
