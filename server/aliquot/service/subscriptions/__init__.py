"""Sources of GraphQL subscriptions: devices, events, job output and sessions."""
