"""Streams: a terminal or a port of a running session, as bytes in both directions; or its results, to the server.

The bytes of a terminal are frames, see `execution/agent/spawner/terminals.py`: kind (1 byte), length (4 bytes, big
endian), content.
"""

import re
import struct
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from aliquot_schema.cluster.results import FilesRequest, request_fault
from aliquot_schema.cluster.workspaces import WorkspaceUse, use_fault

FRAME_HEAD: Final = struct.Struct(">cI")
"""Kind and length of a frame."""
FRAME_BYTES_MAX: Final = 65_536
STREAM_WINDOW_BYTES: Final = 256 * 1024
"""Flow-control window of each direction; each piece is at most `FRAME_BYTES_MAX`."""
GRACE_S: Final = 600.0
"""Time that a terminal without a connection is kept."""
STREAMS_MAX: Final = 1000
"""Open streams of one agent."""
SIZE_MAX: Final = 1000
COMMAND_WORDS_MAX: Final = 1000
COMMAND_CHARS_MAX: Final = 65_536
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
_VIEWER: Final = re.compile(r"[A-Za-z0-9_-]{0,40}")
_TERM: Final = re.compile(r"[A-Za-z0-9._+-]{1,40}")


def frame(kind: bytes, content: bytes = b"") -> bytes:
    """A frame of a terminal."""
    return FRAME_HEAD.pack(kind, len(content)) + content


def take_frames(received: bytearray) -> Iterator[tuple[bytes, bytes]]:
    """Kind and content of each complete frame, which is removed from what was received."""
    while len(received) >= FRAME_HEAD.size:
        kind, length = FRAME_HEAD.unpack_from(received)
        end = FRAME_HEAD.size + length
        if len(received) < end:
            return
        content = bytes(received[FRAME_HEAD.size : end])
        del received[:end]
        yield kind, content


class TerminalRequest(Struct, frozen=True, kw_only=True):
    """A terminal to open, or to attach to."""

    name: str
    """Connections with one name see one terminal."""
    viewer: str = ""
    """Name of the client, the same for each of its connections: its input is counted by it. Empty = the input of all
    clients without one is counted together."""
    tty: bool = True
    """False: standard input, output and error are pipes."""
    rows: int = 24
    columns: int = 80
    term: str = "xterm-256color"
    """Value of the variable TERM."""
    command: tuple[str, ...] = ()
    """Empty = the account's shell."""
    offset: int | None = None
    """Output bytes that the client has, to continue after them. None = a new connection, which gets what is kept."""
    grace_s: float = GRACE_S
    read_only: bool = False
    """Watch only: input and sizes of this connection are ignored."""
    record: bool = False
    """Set by the server, from the policy."""


class StreamTarget(Struct, frozen=True, kw_only=True):
    """What a stream leads to; exactly one is set."""

    terminal: TerminalRequest | None = None
    port: int | None = None
    """A TCP port that a process of the session listens on, on the loopback interface of its node."""
    files: FilesRequest | None = None
    """Files of the session's RESULT_DIR on its node; also after its end. Only the server reads them this way."""
    workspace: WorkspaceUse | None = None
    """A workspace that the server brings before it launches a session with it."""


def target_fault(target: StreamTarget) -> str | None:
    """Message about the first invalid value; None = valid."""
    if sum(one is not None for one in (target.terminal, target.port, target.files, target.workspace)) != 1:
        return "give either a terminal or a port"
    if target.files is not None:
        return request_fault(target.files)
    if target.workspace is not None:
        return use_fault(target.workspace)
    if target.port is not None:
        return None if 1 <= target.port <= 65_535 else f"port: {target.port} is not between 1 and 65535"
    assert target.terminal is not None
    return _terminal_fault(target.terminal)


def _terminal_fault(asked: TerminalRequest) -> str | None:
    if not _NAME.fullmatch(asked.name):
        return "name: give 1 to 40 letters, digits, - and _"
    if not _VIEWER.fullmatch(asked.viewer):
        return "viewer: give at most 40 letters, digits, - and _"
    if not _TERM.fullmatch(asked.term):
        return "term: give the name of a terminal type"
    if not (1 <= asked.rows <= SIZE_MAX and 1 <= asked.columns <= SIZE_MAX):
        return f"rows, columns: give 1 to {SIZE_MAX}"
    if len(asked.command) > COMMAND_WORDS_MAX or sum(map(len, asked.command)) > COMMAND_CHARS_MAX:
        return f"command: at most {COMMAND_WORDS_MAX} words and {COMMAND_CHARS_MAX} characters"
    if any("\0" in word for word in asked.command) or asked.command[:1] == ("",):
        return "command: it is empty, or has a zero byte"
    if asked.offset is not None and asked.offset < 0:
        return "offset: it is negative"
    return None if 0 <= asked.grace_s <= GRACE_S else f"grace_s: give 0 to {GRACE_S:g}"
