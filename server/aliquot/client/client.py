"""Async client of one server."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Self

import httpx

from aliquot.client.config import Place
from aliquot.client.errors import Refused, ServerUnreachable
from aliquot.client.files import ResultCalls
from aliquot.client.generated.fragments import FRAGMENTS
from aliquot.client.leases import Leases
from aliquot.client.requests import answer_data, check_address, is_loopback, request_body, tls_context
from aliquot.client.sessions import SessionCalls
from aliquot.client.workspaces import WorkspaceCalls

OTHER_LOOP: Final = (
    "this Client has connections of another event loop: make a new one in each `asyncio.run`, or use BlockingClient"
)


class Client(SessionCalls, ResultCalls, WorkspaceCalls, Leases):
    """A client of one server. Use it as an async context manager, or call `close`.

    It has a method for every query, mutation and subscription of the schema, and those of `SessionCalls`, `ResultCalls`
    and `Leases`.
    A mutation that the server refuses raises `Refused`. It belongs to the event loop that it is first used in; in
    another one it raises `RuntimeError`.
    """

    _fragments: ClassVar = FRAGMENTS

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_s: float = 30.0,
        ca_file: Path | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """
        Args:
            url: the address of the server, without a path: `http://127.0.0.1:8090`.
            token: sent as `Authorization: Bearer`.
            timeout_s: for one answer, and for the acceptance of a subscription.
            ca_file: the authority of the server's certificate, in PEM; by default those that this machine trusts.
            transport: how queries and mutations reach the server; by default over the network.
        Raises:
            NoPlace: not an address of a server, or not a certificate.
        """
        check_address(url)
        self._url = url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._tls = tls_context(ca_file) if self._url.startswith("https:") else None
        # A proxy from the environment cannot reach this machine's loopback.
        self._direct = is_loopback(self._url)
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop of the connections."""
        self._http = httpx.AsyncClient(
            base_url=self._url,
            timeout=timeout_s,
            verify=self._tls or False,  # without TLS, no certificates need be loaded
            trust_env=not self._direct,
            transport=transport,
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )

    @classmethod
    def at(cls, place: Place) -> Self:
        """A client of the server that `find_place` selected."""
        return cls(place.url, place.token, ca_file=place.ca_file)

    @property
    def url(self) -> str:
        """Address of the server, without a slash at its end."""
        return self._url

    async def execute(self, query: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run a query or a mutation and return its `data`.

        Raises:
            GraphQLFault: the answer has errors.
            Unauthenticated: the server does not accept the token.
            ServerUnreachable, UnexpectedAnswer: see there.
            RuntimeError: the client has connections of another event loop.
        """
        self._check_loop()
        try:
            response = await self._http.post("/graphql", content=request_body(query, variables))
        except httpx.TransportError as error:
            raise ServerUnreachable(f"{self._url}: {str(error) or type(error).__name__}") from error
        self._loop = _running_loop()
        return answer_data(response.status_code, response.content, url=self._url)

    async def change(self, mutation: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run a mutation with one field, and return the success member of its result.

        Args:
            mutation: selects `__typename`, the fields of the success, and `... on Error { code message }`.
        Raises:
            Refused: the result is one of the expected errors.
            GraphQLFault, Unauthenticated, ServerUnreachable, UnexpectedAnswer: as for `execute`.
        """
        (answer,) = (await self.execute(mutation, variables)).values()
        if not answer["__typename"].endswith("Success"):
            raise Refused(answer)
        return dict(answer)

    async def subscribe(
        self, query: str, variables: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Follow a subscription; each item is one `data`. It ends when the server reports completion.

        It does not resume by itself: remember the last number seen, and subscribe again from there. Close the iterator
        (`contextlib.aclosing`) to end it early.

        Raises:
            SubscriptionClosed: the connection ended before the subscription did.
            GraphQLFault, Unauthenticated, ServerUnreachable, UnexpectedAnswer: as for `execute`.
        """
        # Imported here: most commands of the shell subscribe to nothing.
        from aliquot.client.subscription import Subscription

        url = f"ws{self._url.removeprefix('http')}/graphql"
        async with Subscription(
            url, self._token, direct=self._direct, timeout_s=self._timeout_s, tls=self._tls
        ) as socket:
            async for data in socket.follow(query, dict(variables or {})):
                yield data

    @property
    def http(self) -> httpx.AsyncClient:
        """Sends requests to paths of the server, with the token."""
        self._check_loop()
        self._loop = self._loop or _running_loop()
        return self._http

    async def close(self) -> None:
        """Close the connections."""
        self._check_loop()
        await self._http.aclose()

    def _check_loop(self) -> None:
        if self._loop is not None and _running_loop() not in (None, self._loop):
            raise RuntimeError(OTHER_LOOP)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
