"""Requests of the generated operations: sends documents with their fragments, and converts answers to types.

Also checks the address of a server, and loads the authority of its certificate.
"""

import re
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import msgspec

from aliquot.client.errors import NoPlace, Refused, UnexpectedAnswer

_SPREAD: Final = re.compile(r"\.\.\.(\w+)")


class Requests(ABC):
    """Sends documents and reads answers."""

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
        (found,) = (await self.execute(self._whole(document), _plain(variables))).values()
        return _typed(found, answer)

    async def _change(self, document: str, variables: Mapping[str, Any], success: type[msgspec.Struct]) -> Any:
        (found,) = (await self.execute(self._whole(document), _plain(variables))).values()
        kind = found["__typename"]
        if kind != success.__name__:
            raise Refused({name.removeprefix(f"{kind}_"): value for name, value in found.items()})
        return _typed(found, success)

    async def _follow(self, document: str, variables: Mapping[str, Any], item: Any) -> AsyncGenerator[Any, None]:
        async with aclosing(self.subscribe(self._whole(document), _plain(variables))) as items:
            async for data in items:
                (found,) = data.values()
                yield _typed(found, item)

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


def trusting(ca_file: Path) -> ssl.SSLContext:
    """A TLS context that trusts only this authority.

    Raises:
        NoPlace: the file contains no certificate.
    """
    try:
        return ssl.create_default_context(cafile=ca_file.expanduser())
    except OSError as error:
        raise NoPlace(f"no certificate in {ca_file}: {error.strerror or error}") from None
