"""Field helpers: root fields whose resolvers return read models, described arguments, and closing of streams."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, TypeVar

import strawberry

F = TypeVar("F", bound=Callable[..., object])


def root_field(graphql_type: Any, description: str) -> Callable[[F], F]:
    """Publish a query or mutation under a GraphQL type; mypy still checks the resolver's own return type."""
    decorator: Callable[[F], F] = strawberry.field(graphql_type=graphql_type, description=description)
    return decorator


def root_stream(graphql_type: Any, description: str) -> Callable[[F], F]:
    """Publish a subscription; `graphql_type` is the type of one item."""
    decorator: Callable[[F], F] = strawberry.subscription(graphql_type=graphql_type, description=description)
    return decorator


def argument(description: str) -> Any:
    """A described argument."""
    return strawberry.argument(description=description)


def optional(description: str) -> Any:
    """An input field that is null by default."""
    return strawberry.field(default=None, description=description)


T = TypeVar("T")


async def closing(source: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """Yield the items of a source, and close it together with this generator, not only at garbage collection."""
    try:
        async for item in source:
            yield item
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()
