"""The HTTP face: the GraphQL endpoint, sign-in, health, the status page, and what guards them."""
