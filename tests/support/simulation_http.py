"""HTTP requests of a run: the whole application of a server, without sockets, under the same faults."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from fractions import Fraction
from itertools import count
from types import SimpleNamespace
from typing import Any, Final

import httpx
import pytest
import strawberry

from aliquot.api import application, middleware
from aliquot.api.authentication import TokenAuth
from aliquot.api.connections import OpenConnections
from aliquot.api.limits import Limits
from aliquot.service.ports import StoreUnavailable
from aliquot.service.use_cases import UseCases
from aliquot_schema.errors import AliquotError
from aliquot_schema.graphql.context import Services
from aliquot_schema.graphql.schema import build_schema
from aliquot_schema.ids import UserId
from aliquot_schema.requests import NewSession

OWNER: Final = "ann"
"""The token's user."""
TOKEN: Final = "a-token-of-the-simulation-0123456789"
CREATE: Final = """
mutation ($input: CreateSessionInput!) {
  create_session(input: $input) {
    __typename
    ... on CreateSessionSuccess { session { id state owner } }
    ... on Error { message code }
  }
}
"""
READ: Final = """
{
  agents(first: 10) { edges { node { id state gpu_alloc_map devices { id used free holders { share session_id } } } } }
  sessions(first: 50) { edges { node { id state queue_position waits { reason message } order_explanation } } }
  queue(first: 50) { edges { node { position session { id state } } } }
}
"""
NO_ANSWER: Final = frozenset({"unavailable", "timeout"})
"""Error codes after which the request is retried."""


@contextmanager
def numbered_requests() -> Iterator[None]:
    """Number request ids, which would be random: they are in the log."""
    numbers = count(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(middleware, "uuid_utils", SimpleNamespace(uuid7=lambda: next(numbers)))
        yield


class Refused(AliquotError):
    """A refusal."""


class HttpClient:
    """A server's ASGI app."""

    def __init__(self, cases: UseCases) -> None:
        auth = TokenAuth(TOKEN, UserId(OWNER), source="the simulation", people=cases.state.people)
        open_connections = OpenConnections(auth)
        cases.journal.subscribe(open_connections.note)
        services = Services(
            queries=cases.queries,
            sessions=cases.sessions,
            subscriptions=cases.watching,
            administration=cases.administration,
            accounts=cases.accounts,
            external_allocations=cases.external_allocations,
            bookings=cases.bookings,
            templates=cases.templates,
        )
        limits = Limits(cost_per_minute=None)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(application, "build_schema", _shared_schema)
            self._application = application.create_app(
                application.ApiDependencies(
                    services=services, auth=auth, open_connections=open_connections, limits=limits
                )
            )

    async def submit(self, request: NewSession) -> str:
        """Submit; returns the session id.

        Raises:
            Refused: the request was refused.
            StoreUnavailable: no answer.
        """
        data = await self._post(CREATE, {"input": _input(request)})
        answer = data["create_session"]
        if answer["__typename"] == "CreateSessionSuccess":
            assert answer["session"]["owner"] == OWNER, answer
            return str(answer["session"]["id"])
        if answer["code"] in NO_ANSWER:
            raise StoreUnavailable(answer["message"])
        raise Refused(answer["message"])

    async def read(self) -> None:
        """Read the whole cluster; each list must be consistent. Two lists may be of different times.

        Raises:
            StoreUnavailable: no answer.
        """
        data = await self._post(READ, {})
        for agent in _nodes(data["agents"]):
            for device in agent["devices"]:
                shares = sum(Fraction(holder["share"]) for holder in device["holders"])
                assert Fraction(device["used"]) == shares, f"{agent['id']} has {device}"
        positions = [entry["position"] for entry in _nodes(data["queue"])]
        assert positions == list(range(1, len(positions) + 1)), f"positions {positions}"

    async def _post(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        transport = httpx.ASGITransport(self._application)
        headers = {"authorization": f"Bearer {TOKEN}", "host": "127.0.0.1"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
            response = await client.post("/graphql", json={"query": query, "variables": variables})
        if response.status_code == 503:
            raise StoreUnavailable("503")
        assert response.status_code == 200, response.text
        answer = response.json()
        codes = {error.get("extensions", {}).get("code") for error in answer.get("errors", ())}
        if codes & NO_ANSWER:
            raise StoreUnavailable(str(codes))
        assert not codes, answer["errors"]
        data: dict[str, Any] = answer["data"]
        return data


_built: dict[type[strawberry.Schema], strawberry.Schema] = {}


def _shared_schema(kind: type[strawberry.Schema], *, extensions: Any, executor: Any) -> strawberry.Schema:
    """Built once for all runs, as that takes longer than a server's life."""
    if kind not in _built:
        _built[kind] = build_schema(kind, executor=executor)
    schema = copy(_built[kind])
    schema.extensions = extensions
    return schema


def _nodes(connection: dict[str, Any]) -> list[dict[str, Any]]:
    return [edge["node"] for edge in connection["edges"]]


def _input(request: NewSession) -> dict[str, Any]:
    """`CreateSessionInput`, only fields in use."""
    asked: dict[str, Any] = {
        name: getattr(request, name)
        for name in (
            *("cluster_size", "cluster_size_min", "priority", "max_retries", "preemptible", "retries_own_failures"),
            *("held", "idempotency_key", "array", "max_parallel", "checkpoint_signal", "grace"),
        )
    }
    return asked | {
        "command": {"argv": list(request.argv or ())},
        "slots": _slots(request.slots),
        "depends_on": [{"session_id": name, "condition": condition} for name, condition in request.depends_on],
        "fallbacks": [
            {"slots": _slots(fallback.slots), "after_s": fallback.after_s, "cluster_size": fallback.cluster_size}
            for fallback in request.fallbacks
        ],
    }


def _slots(slots: Any) -> list[dict[str, str]]:
    return [{"slot": slot, "amount": amount} for slot, amount in slots]
