"""What can go wrong between a client and its server.

ClientFailure
├── ServerUnreachable    no connection, or it broke before the answer; whether the request was done is not known
├── UnexpectedAnswer     something answered that does not speak as this server does
├── GraphQLFault         the answer has `errors`: a wrong query, or a fault of the server
├── Refused              a mutation answered with an expected error
├── LeaseLost            GPUs that were held by hand are not held any more
├── NoPlace              which server is meant, or the token for it, is not known
└── SubscriptionClosed   the server closed the socket; subscribe again from the last number seen

A missing or wrong token is `aliquot_schema.errors.Unauthenticated`, as everywhere.
"""

from collections.abc import Mapping, Sequence
from typing import Any


class ClientFailure(Exception):
    """The server could not be asked, or not be understood."""


class ServerUnreachable(ClientFailure):
    """No connection, or it broke before the answer; whether the request was carried out is not known."""


class UnexpectedAnswer(ClientFailure):
    """Something answered that does not speak as this server does."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP status {status}: {text[:500]}")
        self.status = status


class GraphQLFault(ClientFailure):
    """The answer has `errors`."""

    def __init__(self, errors: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("; ".join(str(error.get("message", error)) for error in errors))
        self.errors = tuple(errors)
        """As in the GraphQL specification, 7.1.2."""


class Refused(ClientFailure):
    """A mutation answered with an expected error, as in `aliquot_schema.errors`; nothing was changed."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__(f"{answer['__typename']}: {answer.get('message', '')}")
        self.kind = str(answer["__typename"])
        self.code = str(answer.get("code", ""))
        self.answer = dict(answer)
        """The union's member, with every field that was asked for."""


class LeaseLost(ClientFailure):
    """GPUs that were held by hand are not held any more, and may have been given to somebody else."""


class NoPlace(ClientFailure):
    """Which server is meant, or what lets one in there, is not known."""


class SubscriptionClosed(ClientFailure):
    """The server closed the socket before the subscription was complete."""

    def __init__(self, code: int | None, reason: str) -> None:
        super().__init__(f"closed with code {code}: {reason}" if code else "the connection broke")
        self.code = code
        self.reason = reason
