"""Read models: projections of the state for the API."""
