"""Client errors: failures between a client and its server.

ClientFailure
├── ServerUnreachable    no connection, or it broke before the answer; whether the request was done is unknown
├── UnexpectedAnswer     the answer is not that of an Aliquot server of this version
├── GraphQLFault         the answer has `errors`: a wrong query, or a fault of the server
├── Refused              a mutation answered with an expected error
├── LeaseLost            GPUs of an external allocation are no longer held
├── NoPlace              the server to use, or the token for it, is not configured
└── SubscriptionClosed   the server closed the socket; subscribe again from the last number seen

A missing or wrong token is `aliquot_schema.errors.Unauthenticated`, as everywhere.
"""

from collections.abc import Mapping, Sequence
from typing import Any


class ClientFailure(Exception):
    """The server could not be asked, or its answer not be used."""


class ServerUnreachable(ClientFailure):
    """No connection, or it broke before the answer; whether the request was carried out is unknown."""


class UnexpectedAnswer(ClientFailure):
    """The answer is not that of an Aliquot server of this version."""

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
    """A mutation answered with an expected error of `aliquot_schema.errors`; nothing was changed."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__(f"{answer['__typename']}: {answer.get('message', '')}")
        self.kind = str(answer["__typename"])
        self.code = str(answer.get("code", ""))
        self.answer = dict(answer)
        """The union's member, with all selected fields."""


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
