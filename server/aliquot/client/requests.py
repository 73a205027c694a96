"""Requests of the generated operations: sends documents with their fragments, and converts answers to types.

Also checks the address of a server, and loads the authorities of certificates.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from urllib.parse import urlsplit

import msgspec
import orjson

from aliquot.client.errors import (
    GraphQLFault,
    NoPlace,
    OtherVersion,
    Refused,
    ServerUnreachable,
    UnexpectedAnswer,
    is_of_other_version,
)
from aliquot.client.retries import RateLimitWait
from aliquot_schema.errors import Unauthenticated

if TYPE_CHECKING:
    import ssl

    import httpx

T = TypeVar("T")
_SPREAD: Final = re.compile(r"\.\.\.(\w+)")


class Requests(ABC):
    """Sends documents and reads answers. What a rate limit refuses is sent again when the server allows it."""

    _fragments: ClassVar[Mapping[str, str]] = {}
    """The selected fields of each type, by its name."""
    _documents: ClassVar[dict[str, str]] = {}
    """Complete documents by their operation, separate for each class like its fragments."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._documents = {}

    @abstractmethod
    async def execute(self, query: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run a query or a mutation and return its `data`."""

    @abstractmethod
    def subscribe(self, query: str, variables: Mapping[str, Any] | None = None) -> AsyncGenerator[dict[str, Any], None]:
        """Follow a subscription; each item is one `data`."""

    async def _read(self, document: str, variables: Mapping[str, Any], answer: Any) -> Any:
        return _typed(await self._when_allowed(partial(self._answer, document, variables)), answer)

    async def _change(self, document: str, variables: Mapping[str, Any], success: type[msgspec.Struct]) -> Any:
        async def ask() -> Any:
            found = _result(await self._answer(document, variables), success)
            if isinstance(found, Refused):
                raise found
            return found

        return await self._when_allowed(ask)

    async def _change_each(self, document: str, variables: Mapping[str, Any], success: type[msgspec.Struct]) -> Any:
        """A list of results, each of them alone: a refusal is an entry."""
        results = await self._when_allowed(partial(self._answer, document, variables))
        return tuple(_result(found, success) for found in results)

    async def _when_allowed(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Send a request again when a rate limit that refused it allows it."""
        wait = RateLimitWait(self._sleep)
        while True:
            try:
                return await ask()
            except (GraphQLFault, Refused) as error:
                await wait.pause(error)

    async def _sleep(self, seconds: float) -> None:
        import asyncio  # the blocking client's short calls need no event loop

        await asyncio.sleep(seconds)

    async def _answer(self, document: str, variables: Mapping[str, Any]) -> Any:
        """The only field of the answer.

        Raises:
            OtherVersion: the server does not know this version's document.
        """
        try:
            (found,) = (await self.execute(self._whole(document), _plain(variables))).values()
        except GraphQLFault as fault:
            if is_of_other_version(fault.errors):
                raise OtherVersion(fault.errors) from fault
            raise
        return found

    async def _follow(self, document: str, variables: Mapping[str, Any], item: Any) -> AsyncGenerator[Any, None]:
        wait = RateLimitWait(self._sleep)
        while True:
            try:
                async with aclosing(self.subscribe(self._whole(document), _plain(variables))) as items:
                    async for data in items:
                        (found,) = data.values()
                        yield _typed(found, item)
                return
            except GraphQLFault as error:  # a rate limit refuses before the first item
                await wait.pause(error)

    def _whole(self, document: str) -> str:
        """The document with the fragments that it uses."""
        if document not in self._documents:
            texts = [document]
            for text in texts:  # grows while it is iterated
                for name in dict.fromkeys(_SPREAD.findall(text)):
                    fragment = f"fragment {name} on {name} {{ {self._fragments[name]} }}"
                    if fragment not in texts:
                        texts.append(fragment)
            self._documents[document] = "\n".join(texts)
        return self._documents[document]


def _plain(variables: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(dict(variables))
    return plain


def _result(found: Mapping[str, Any], success: type[msgspec.Struct]) -> Any:
    kind = found["__typename"]
    if kind == success.__name__:
        return _typed(found, success)
    return Refused({name.removeprefix(f"{kind}_"): value for name, value in found.items()})


def _typed(found: Any, answer: Any) -> Any:
    try:
        return msgspec.convert(found, answer)
    except msgspec.ValidationError as error:
        raise UnexpectedAnswer(200, f"{error}; the server may be newer than this client") from error


LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def is_loopback(url: str) -> bool:
    """Whether it is this machine, which a proxy cannot reach."""
    return urlsplit(url).hostname in LOOPBACK


def check_address(url: str) -> None:
    """Check the address of a server.

    Raises:
        NoPlace: it is not an http or https URL.
    """
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    is_plain = url.startswith(("http://", "https://")) and url.isprintable() and not {" ", "?", "#"} & set(url)
    if not (is_address and is_plain):
        raise NoPlace(f"{url!r} is not the address of a server; write it like https://gpu01:8090")


def tls_context(ca_file: Path | None) -> "ssl.SSLContext":
    """A TLS context that trusts this authority only, or without one those that this machine trusts.

    Raises:
        NoPlace: the file contains no certificate.
    """
    import ssl  # servers of this machine need none

    try:
        return ssl.create_default_context(cafile=ca_file.expanduser() if ca_file else None)
    except OSError as error:
        raise NoPlace(f"no certificate in {ca_file}: {error.strerror or error}") from None


def request_body(query: str, variables: Mapping[str, Any] | None) -> bytes:
    """The body of a GraphQL request."""
    return orjson.dumps({"query": query, "variables": dict(variables or {})})


def answer_data(status: int, content: bytes, *, url: str) -> dict[str, Any]:
    """The `data` of an answer.

    Raises:
        GraphQLFault: the answer has errors.
        Unauthenticated: the server does not accept the token.
        ServerUnreachable, UnexpectedAnswer: see there.
    """
    if status == 401:
        raise Unauthenticated(f"the server at {urlsplit(url).netloc.rpartition('@')[2]} does not accept this token")
    try:
        answer = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise unexpected(status, content, url=url) from None
    if not isinstance(answer, dict) or not ({"data", "errors"} & answer.keys()):
        raise unexpected(status, content, url=url)
    if answer.get("errors"):
        raise GraphQLFault(answer["errors"])
    data: dict[str, Any] = answer["data"]
    return data


_OF_PROXIES: Final = frozenset({502, 503, 504})
"""Statuses by which a proxy says that the server behind it does not answer, as while it is restarted."""


def unexpected(status: int, content: bytes, *, url: str) -> ServerUnreachable | UnexpectedAnswer:
    """The error of an answer that is not Aliquot's."""
    error = UnexpectedAnswer(status, content.decode(errors="replace"))
    return ServerUnreachable(f"{url}: {error}") if status in _OF_PROXIES else error


def decoded(answer: "httpx.Response", kind: type[T]) -> T:
    """The content of an answer, which is JSON of this type.

    Raises:
        UnexpectedAnswer: it is not.
    """
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except msgspec.MsgspecError:
        raise UnexpectedAnswer(answer.status_code, answer.text) from None
