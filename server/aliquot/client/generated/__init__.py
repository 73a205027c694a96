"""What the server knows and does.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""
