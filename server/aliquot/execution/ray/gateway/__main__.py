"""Gateway program: `python -m aliquot.execution.ray.gateway HOST:PORT FD EPOCH`; the server has the peer of FD."""

import asyncio
import logging
import os
import socket
import sys
from typing import Final

from aliquot.execution.ray.gateway.multiplexer import Multiplexer
from aliquot.execution.ray.protocol import FromServer, Pipe, PipeBroken, RayUnreachable
from aliquot.execution.ray.supervisor import Unreachable, reach

CONNECT_TURN_S: Final = 3.0
CONNECT_TURNS_MAX: Final = 10
"""Number of waits of `CONNECT_TURN_S` for Ray to accept this driver; the server gets a status after each."""

log: Final = logging.getLogger("aliquot.gateway")


async def main(head: str, *, descriptor: int, epoch: int) -> None:
    """Run until the server is gone, or this process can no longer reach Ray."""
    reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=descriptor))
    server: Pipe[FromServer] = Pipe(reader, writer, incoming=FromServer)
    multiplexer = Multiplexer(server, epoch=epoch)
    listening = asyncio.create_task(multiplexer.listen())
    working = asyncio.create_task(_work(head, server, multiplexer))
    await asyncio.wait({listening, working}, return_when=asyncio.FIRST_COMPLETED)
    for task in (listening, working):
        error = task.exception() if task.done() else None
        if error is None or isinstance(error, PipeBroken):
            continue
        if not isinstance(error, Unreachable):
            log.error("the gateway failed", exc_info=error)
        await server.send(RayUnreachable(reason=str(error).strip().partition("\n")[0] or type(error).__name__))


async def _work(head: str, server: Pipe[FromServer], multiplexer: Multiplexer) -> None:
    """Never returns.

    Raises:
        Unreachable: Ray cannot be reached now. Exceptions of Ray itself are passed on.
    """
    await reach(head)
    # Imported here: the import takes a second and is useless while Ray is not reachable.
    from aliquot.execution.ray.gateway.driver import connect
    from aliquot.execution.ray.gateway.multiplexer import RayCluster

    connecting = asyncio.create_task(asyncio.to_thread(connect, head))
    for _ in range(CONNECT_TURNS_MAX):
        if (await asyncio.wait({connecting}, timeout=CONNECT_TURN_S))[0]:
            break
        await server.send(RayUnreachable(reason=f"waiting for Ray at {head} to accept a driver from this host"))
    else:
        raise Unreachable(
            f"Ray at {head} accepts no driver from this host: the token is wrong, or no Ray node of the cluster runs "
            f"here; `aliquot node start --ray-head {head} --no-agent` starts one; see the server's log"
        )
    try:
        version = connecting.result()
    except ConnectionError as error:
        raise Unreachable(f"Ray at {head} rejects this host, for example because of a wrong token: {error}") from error
    log.info("connected to Ray %s at %s", version, head)
    await RayCluster(version=version, head=head, server=server, multiplexer=multiplexer).watch()


async def _run() -> None:
    """Run `main` and exit without waiting for Ray's threads."""
    await main(sys.argv[1], descriptor=int(sys.argv[2]), epoch=int(sys.argv[3]))
    os._exit(0)


if __name__ == "__main__":
    logging.basicConfig(level="INFO", stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(_run())
