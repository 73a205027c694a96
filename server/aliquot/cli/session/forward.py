"""`aliquot session forward`: makes a TCP port of a running session a port of this machine's loopback interface."""

import asyncio
import socket
import struct
import sys
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from typer import Argument, Option

from aliquot.cli.connection.server import (
    REFUSED,
    AtServer,
    InCluster,
    TokenFile,
    fail,
    failure_text,
    failures_shown,
    usage,
)
from aliquot.cli.session.names import find_id
from aliquot.cli.session.options import SessionId
from aliquot_schema.cluster.streams import FRAME_BYTES_MAX

if TYPE_CHECKING:
    from aliquot.client.config import Place
    from aliquot.client.streams import SessionStream

PORT_MAX: Final = 65_535
CONNECTIONS_MAX: Final = 100
"""Open at the same time; more wait."""
Ports = Annotated[
    list[str], Argument(metavar="[LOCAL:]PORT...", help="Ports of the session, with other local ports; 0 = a free one.")
]
Rank = Annotated[int, Option(min=0, help="The kernel of a session with several.")]


class PortPair(NamedTuple):
    """A local port and the session's."""

    local: int
    remote: int


def forward(
    session_id: SessionId,
    ports: Ports,
    rank: Rank = 0,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
) -> None:
    """Forward ports of this machine to ports that a running session listens on, until Ctrl-C.

    The session has to listen on 127.0.0.1, ::1 or all addresses of its node.
    """
    from aliquot.client import find_place

    pairs = [_pair(text) for text in ports]
    with failures_shown():
        place = find_place(cluster=cluster, server=server, token_file=token_file)
        asyncio.run(_forward(place, find_id(place, session_id), rank, pairs))


def _pair(text: str) -> PortPair:
    local, found, remote = text.rpartition(":")
    local = local if found else remote
    if not (local.isdecimal() and remote.isdecimal() and int(local) <= PORT_MAX and 0 < int(remote) <= PORT_MAX):
        usage(f"{text}: write it like 8888, or 9999:8888 for another local port")
    return PortPair(int(local), int(remote))


async def _forward(place: "Place", id: str, rank: int, pairs: list[PortPair]) -> None:
    from aliquot.client.streams import SessionStream

    await SessionStream.check(place, id, rank=rank)
    room = asyncio.Semaphore(CONNECTIONS_MAX)
    for local, remote in pairs:

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, remote: int = remote) -> None:
            async with room:
                await _carry(place, id, {"rank": rank, "port": remote}, reader, writer)

        try:
            listener = await asyncio.start_server(serve, "127.0.0.1", local)
        except OSError as error:
            fail(f"port {local} of this machine cannot be used: {error.strerror}", code=REFUSED)
        port = listener.sockets[0].getsockname()[1]
        print(f"http://127.0.0.1:{port} is port {remote} of {id}", flush=True)
    await asyncio.Event().wait()


async def _carry(
    place: "Place",
    id: str,
    asked: dict[str, int],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Carry one connection; what prevents it is printed, and the next one is tried again."""
    from aliquot.client.errors import ClientFailure
    from aliquot.client.streams import SessionStream
    from aliquot_schema.errors import AliquotError

    try:
        stream = await SessionStream.open(place, id, asked)
        try:
            await _join(stream, reader, writer)
        finally:
            await stream.close()
    except (ClientFailure, AliquotError) as error:
        print(f"aliquot: {failure_text(error)}", file=sys.stderr, flush=True)
        _reset(writer)
    except OSError:
        pass  # the local program broke its connection; the session's is broken too, as its end was not sent
    finally:
        writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST, so that the local program does not take what it has received for all."""
    if not writer.is_closing():
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()


async def _join(stream: "SessionStream", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry both directions until the session has ended its own. Raises what breaks either."""

    async def up() -> None:
        while data := await reader.read(FRAME_BYTES_MAX):
            await stream.write(data)
        await stream.end()

    async def down() -> None:
        while data := await stream.read():
            writer.write(data)
            await writer.drain()

    sending, receiving = asyncio.create_task(up()), asyncio.create_task(down())
    try:
        await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
        if not receiving.done():
            sending.result()
        await receiving
    finally:
        sending.cancel()
        receiving.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)
