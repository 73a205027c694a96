"""GraphQL schema: built here; printed by `python -m aliquot_schema.graphql.schema > schema/schema.graphql`."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import strawberry
from graphql.execution import Executor
from strawberry.extensions import SchemaExtension
from strawberry.schema.config import StrawberryConfig

from aliquot_schema.graphql.enums import SnakeNames
from aliquot_schema.graphql.mutations import Mutation
from aliquot_schema.graphql.queries import Query
from aliquot_schema.graphql.scalars import SCALARS
from aliquot_schema.graphql.subscriptions import Subscription

S = TypeVar("S", bound=strawberry.Schema)


def build_schema(
    kind: type[S],
    *,
    extensions: Sequence[type[SchemaExtension] | Callable[[], SchemaExtension]] = (),
    executor: type[Executor[Any]] | None = None,
) -> S:
    """Build the executable schema as an instance of `kind`. `executor`: None = Strawberry's default."""
    return kind(
        query=Query,
        mutation=Mutation,
        subscription=Subscription,
        extensions=extensions,
        execution_context_class=executor,
        config=StrawberryConfig(name_converter=SnakeNames(), scalar_map=SCALARS),
    )


def schema_text() -> str:
    """The schema in the schema definition language, ending in a newline."""
    return f"{build_schema(strawberry.Schema).as_str()}\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
