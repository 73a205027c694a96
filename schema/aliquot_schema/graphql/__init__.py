"""GraphQL API: Strawberry types, inputs and resolvers. Resolvers reach the server through the ports in `context`."""
