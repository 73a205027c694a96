"""The code of the Python client's types and operations, made from the schema."""
