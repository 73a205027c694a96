"""Root fields: resolvers that answer with read models, published under another GraphQL type."""

from collections.abc import Callable
from typing import Any, TypeVar

import strawberry

F = TypeVar("F", bound=Callable[..., object])


def root_field(graphql_type: Any, description: str) -> Callable[[F], F]:
    """Publish a query or mutation; the resolver keeps its Python type, so it is checked for what it really returns."""
    decorator: Callable[[F], F] = strawberry.field(graphql_type=graphql_type, description=description)
    return decorator


def root_stream(graphql_type: Any, description: str) -> Callable[[F], F]:
    """Publish a subscription; `graphql_type` is that of one item."""
    decorator: Callable[[F], F] = strawberry.subscription(graphql_type=graphql_type, description=description)
    return decorator
