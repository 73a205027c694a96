"""Types and operations of the GraphQL API.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
"""
