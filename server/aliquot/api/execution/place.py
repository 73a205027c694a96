"""Places: the little of a `GraphQLResolveInfo` that finding out a value's type needs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from graphql import GraphQLSchema
from graphql.execution import Executor
from graphql.execution.collect_fields import FieldDetails


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The field whose value is looked at. Whoever asks it for more fails, and leaves the value to graphql-core."""

    field_name: str
    schema: GraphQLSchema
    is_awaitable: Callable[[Any], bool]

    @classmethod
    def of(cls, executor: Executor[Any], details: list[FieldDetails]) -> Self:
        """The place of a field."""
        return cls(field_name=details[0].node.name.value, schema=executor.schema, is_awaitable=executor.is_awaitable)
