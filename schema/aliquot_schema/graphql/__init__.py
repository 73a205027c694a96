"""The GraphQL face: Strawberry types, inputs and resolvers. They ask the server through `context`."""
