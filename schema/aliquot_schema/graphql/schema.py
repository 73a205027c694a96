"""The schema as a whole."""

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
    """Build the executable schema, as the kind of schema that the server wants; None: executed by Strawberry's own."""
    return kind(
        query=Query,
        mutation=Mutation,
        subscription=Subscription,
        extensions=extensions,
        execution_context_class=executor,
        config=StrawberryConfig(name_converter=SnakeNames(), scalar_map=SCALARS),
    )
