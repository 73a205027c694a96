"""Requests that are no GraphQL requests."""


class Malformed(Exception):
    """A request that is no GraphQL request; `status` says what kind of wrong."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
