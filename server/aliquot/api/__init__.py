"""HTTP API: the GraphQL endpoint, REST, sign-in, health, metrics, pages, and the middleware before them."""
