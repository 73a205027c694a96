"""What the generated operations stand on: a document is sent with its fragments, and its answer is read as a type."""

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Final

import msgspec

from aliquot.client.failures import Refused, UnexpectedAnswer

_SPREAD: Final = re.compile(r"\.\.\.(\w+)")


class Asking(ABC):
    """Sends documents, and reads answers."""

    _fragments: ClassVar[Mapping[str, str]] = {}
    """What is selected of a type, by its name."""
    _documents: ClassVar[dict[str, str]] = {}
    """Whole documents, by what they begin with; of each class its own, as its fragments are."""

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
        """The document with the fragments that it needs."""
        if document not in self._documents:
            texts = [document]
            for text in texts:  # which grows meanwhile
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
