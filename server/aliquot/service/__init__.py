"""Use cases: what happens when somebody asks, when an agent speaks, and when devices become free."""
