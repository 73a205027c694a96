"""Decision ledger: the inputs and the plan of every scheduling pass, hash-chained."""
