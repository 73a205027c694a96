"""In-memory state of the cluster: the fold of the event log, its indexes, and the unit of work that changes it."""
