"""What the server and its gateway say to each other, on a socket that the server made for both.

gateway                            server
Joined, or Apart              ->                            whenever what is known of Ray changes
Opened                        ->                            an agent can be talked to over this connection
Frame                         <->  Frame                    as `remote.channel` cuts them
Taken                         ->                            so many bytes have reached the agent
Closed                        <->  Closed                   the connection is over
"""

from typing import Final

import msgspec

CREDIT_BYTES: Final = 1 << 20
"""How much may be on its way to one agent."""


class Joined(msgspec.Struct, frozen=True, kw_only=True, tag="joined"):
    """Ray answers."""

    version: str
    workers: int
    """Nodes with an agent that can be talked to."""
    nodes: int
    """Nodes that are alive, as Ray sees it."""
    problems: tuple[str, ...] = ()
    """Why nodes have no agent, a line each."""


class Apart(msgspec.Struct, frozen=True, kw_only=True, tag="apart"):
    """Ray does not answer, and why."""

    reason: str


class Opened(msgspec.Struct, frozen=True, kw_only=True, tag="opened"):
    """A connection to an agent."""

    connection: int
    agent_id: str


class Frame(msgspec.Struct, frozen=True, kw_only=True, tag="frame"):
    """A piece of the conversation; base64 in JSON."""

    connection: int
    data: bytes


class Taken(msgspec.Struct, frozen=True, kw_only=True, tag="taken"):
    """The agent has taken frames of so many bytes together."""

    connection: int
    size: int


class Closed(msgspec.Struct, frozen=True, kw_only=True, tag="closed"):
    """One side has ended the connection."""

    connection: int
    died: bool = False
    """Ray says that the agent's process is gone."""


FromGateway = Joined | Apart | Opened | Frame | Taken | Closed
FromServer = Frame | Closed
