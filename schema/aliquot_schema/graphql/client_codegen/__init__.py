"""Code generator of the Python client's types and operations."""
