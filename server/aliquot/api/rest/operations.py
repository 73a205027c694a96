"""Operations: one table from which both the routes and the OpenAPI document are made, so that neither can lie."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Struct

from aliquot_schema.graphql.context import Context, Outsider


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request, read and checked."""

    context: Context
    body: Any = None
    """Of the operation's type."""
    path: dict[str, str] = field(default_factory=dict)
    query: Any = None
    """Of the operation's type."""
    idempotency_key: str | None = None

    @property
    def outside(self) -> Outsider:
        """There is one wherever there are routes of REST, see `rest_routes`."""
        assert self.context.outside is not None
        return self.context.outside


Handler = Callable[[Ask], Awaitable[object]]
USUAL_PROBLEMS: Final = (400, 401, 403, 422, 429, 503, 504)
"""Statuses that any operation may answer with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    name: str
    """The id in the document."""
    summary: str
    handler: Handler
    answer: Any
    """The type of what it answers with."""
    status: int = 200
    body: type | None = None
    """The type of the request's body; None = it has none."""
    is_body_needed: bool = True
    query: type[Struct] | None = None
    """Query parameters, each with a default."""
    problems: tuple[int, ...] = ()
    """Statuses beside the usual ones."""
    cost: int = 20
    """What it takes of its caller's rate, in which queries are weighed: about the fields of its answer."""
    cost_each: int = 0
    """Besides, for each of the items that are asked for at most."""
    takes_key: bool = False
    """Whether a header `Idempotency-Key` makes a retry safe."""

    def cost_of(self, query: Any) -> int:
        """What one request takes."""
        return self.cost + self.cost_each * getattr(query, "first", 0)

    @property
    def path_names(self) -> tuple[str, ...]:
        """The parameters in the path."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))
