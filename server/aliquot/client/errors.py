"""Client errors: failures between a client and its server.

ClientFailure
├── ServerUnreachable    no connection, or it broke before the answer; whether the request was done is unknown
│   └── ClusterUnavailable   the server answered that a part of the cluster cannot be reached now, like an agent
├── UnexpectedAnswer     the answer is not that of an Aliquot server of this version
├── GraphQLFault         the answer has `errors`: a wrong query, or a fault of the server
│   └── OtherVersion     the server does not know a request of this client: it has another version
├── Refused              a mutation answered with an expected error
├── LeaseLost            GPUs of an external allocation are no longer held
├── NoPlace              the server to use, or the token for it, is not configured
└── SubscriptionClosed   the server closed the socket; subscribe again from the last number seen

A missing or wrong token is `aliquot_schema.errors.Unauthenticated`, as everywhere.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aliquot_schema.errors import RateLimited, Unavailable

OTHER_VERSION: Final = (
    "the server has another version of Aliquot and does not know this request; upgrade the older side, "
    "or use the client of the server's version"
)
_UNKNOWN_NAME: Final = re.compile(
    r"Cannot query field|Unknown (argument|type|field)|is not defined by type|The operation has a cost of"
)


def is_of_other_version(errors: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a request that this version made itself was refused for a name that the server does not know.

    A server may count the cost before it looks at names; requests of this client never exceed the limit of its version.
    """
    return any(_UNKNOWN_NAME.search(str(error.get("message", ""))) for error in errors)


def is_unavailable(errors: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a part of the cluster cannot be reached now, like the agent that has an output."""
    return _has_code(errors, Unavailable.code)


def _has_code(errors: Sequence[Mapping[str, Any]], code: str) -> bool:
    return any((error.get("extensions") or {}).get("code") == code for error in errors)


class ClientFailure(Exception):
    """The server could not be asked, or its answer not be used."""


class ServerUnreachable(ClientFailure):
    """No connection, or it broke before the answer; whether the request was carried out is unknown."""


class ClusterUnavailable(ServerUnreachable):
    """The server answered, but a part of the cluster that the request needs cannot be reached now, like an agent."""


class UnexpectedAnswer(ClientFailure):
    """The answer is not that of an Aliquot server of this version."""

    def __init__(self, status: int, text: str) -> None:
        words = "a web page" if text.lstrip()[:1] == "<" else text[:500]
        super().__init__(f"HTTP status {status}: {words}" if words else f"HTTP status {status}")
        self.status = status


class GraphQLFault(ClientFailure):
    """The answer has `errors`."""

    def __init__(self, errors: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("; ".join(str(error.get("message", error)) for error in errors))
        self.errors = tuple(errors)
        """As in the GraphQL specification, 7.1.2."""

    @property
    def is_rate_limit(self) -> bool:
        """Whether the user has sent too many requests; a later one is answered."""
        return _has_code(self.errors, RateLimited.code)

    @property
    def retry_after(self) -> float | None:
        """Seconds after which a request that a rate limit refused may be repeated; None = it was not, or unknown."""
        found = ((error.get("extensions") or {}).get("retry_after") for error in self.errors)
        return next((float(seconds) for seconds in found if seconds is not None), None) if self.is_rate_limit else None


class OtherVersion(GraphQLFault):
    """The server does not know a request that this client made by itself: it has another version of Aliquot."""

    def __str__(self) -> str:
        return OTHER_VERSION


class Refused(ClientFailure):
    """A mutation answered with an expected error of `aliquot_schema.errors`; nothing was changed."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__(f"{answer['__typename']}: {answer.get('message', '')}")
        self.kind = str(answer["__typename"])
        self.code = str(answer.get("code", ""))
        self.answer = dict(answer)
        """The union's member, with all selected fields."""

    @property
    def retry_after(self) -> float | None:
        """Seconds after which a request that a rate limit refused may be repeated; None = it was not, or unknown."""
        return self.answer.get("retry_after") if self.code == RateLimited.code else None


class LeaseLost(ClientFailure):
    """GPUs of an external allocation are no longer held, and may have been allocated to others."""


class NoPlace(ClientFailure):
    """The server to use, or the token for it, is not configured or cannot be read."""


class SubscriptionClosed(ClientFailure):
    """The server closed the socket before the subscription was complete."""

    def __init__(self, code: int | None, reason: str) -> None:
        super().__init__(f"closed with code {code}: {reason}" if code else "the connection broke")
        self.code = code
        self.reason = reason


def error_type(code: str) -> str:
    """GraphQL type of the expected error with this code: `not_found` -> `NotFound`."""
    return "".join(word.capitalize() for word in code.split("_"))


def is_temporary(error: ClientFailure) -> bool:
    """Whether the same request may succeed soon: when the server or its database is back, or another server leads."""
    if isinstance(error, GraphQLFault):
        return is_unavailable(error.errors) or _has_code(error.errors, "timeout")
    return is_disconnect(error)


def is_disconnect(error: ClientFailure) -> bool:
    """Whether the server could not be reached, or closed the connection."""
    return isinstance(error, ServerUnreachable | SubscriptionClosed)
