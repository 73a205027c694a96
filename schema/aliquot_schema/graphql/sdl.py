"""Prints the schema definition: `python -m aliquot_schema.graphql.sdl > schema/schema.graphql`."""

import sys

import strawberry

from aliquot_schema.graphql.schema import build_schema


def schema_text() -> str:
    """The whole schema in the definition language, ending in a newline."""
    return f"{build_schema(strawberry.Schema).as_str()}\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
