"""Model of the scheduler: snapshot, queue, policy and plan."""
