"""Limits of the HTTP face. Everything that a caller can make large has one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is taken. Sizes in bytes, times in seconds."""

    body_bytes: int = 16 * 1024 * 1024
    query_characters: int = 256 * 1024
    """Of a query's text; long values belong into variables."""
    tokens: int = 2_000
    depth: int = 16
    aliases: int = 100
    cost: int = 20_000
    comparisons: int = 2_000
    """Of fields that are selected under one name."""
    introspection: bool = True
    """Whether the schema is told to those who ask for it."""
    request_s: float = 30.0
    """Until a query or mutation is given up. Subscriptions have no end."""
    body_s: float = 30.0
    """Until the whole body of a request must be there."""
    connection_init_s: float = 10.0
    """Until a WebSocket must have said who it is."""
    slow_client_s: float = 10.0
    """How long a subscriber may leave one message unread before it is cut off."""
    operations_per_socket: int = 100
    sockets_per_user: int = 6_000
    """On one server, at one time."""
    streams_per_user: int = 1_000
    """Of events over HTTP; on one server, at one time."""
    cost_per_minute: int | None = None
    """Of all queries of a user together; None = no limit."""
