"""Execution of GraphQL operations: what is nothing but attribute reads is compiled, all else is graphql-core's."""
