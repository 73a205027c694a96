"""`python -m aliquot.execution.ray.gateway HOST:PORT FD EPOCH`: the server has the other end of FD."""

import asyncio
import logging
import os
import socket
import sys
from typing import Final

from aliquot.execution.ray.gateway.switchboard import Switchboard
from aliquot.execution.ray.messages import Apart, FromServer
from aliquot.execution.ray.pipe import Pipe, PipeBroken
from aliquot.execution.ray.reaching import Unreachable, reach

CONNECT_TURN_S: Final = 3.0
CONNECT_TURNS_MAX: Final = 10
"""How often Ray is waited for to make a driver of this process, and the server told so."""

log: Final = logging.getLogger("aliquot.gateway")


async def main(head: str, *, descriptor: int, epoch: int) -> None:
    """Live until the server is gone, or Ray can no longer be had from this process."""
    reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=descriptor))
    server: Pipe[FromServer] = Pipe(reader, writer, incoming=FromServer)
    switchboard = Switchboard(server, epoch=epoch)
    listening = asyncio.create_task(switchboard.listen())
    working = asyncio.create_task(_work(head, server, switchboard))
    await asyncio.wait({listening, working}, return_when=asyncio.FIRST_COMPLETED)
    for task in (listening, working):
        error = task.exception() if task.done() else None
        if error is None or isinstance(error, PipeBroken):
            continue
        if not isinstance(error, Unreachable):
            log.error("the gateway ends", exc_info=error)
        await server.send(Apart(reason=str(error).strip().partition("\n")[0] or type(error).__name__))


async def _work(head: str, server: Pipe[FromServer], switchboard: Switchboard) -> None:
    """Never returns.

    Raises:
        Unreachable: there is no way to Ray now; and whatever else Ray raises.
    """
    await reach(head)
    # Imported here: it takes a second, and is in vain while nobody listens there.
    from aliquot.execution.ray.gateway.cluster import Cluster
    from aliquot.execution.ray.gateway.driver import connect

    connecting = asyncio.create_task(asyncio.to_thread(connect, head))
    for _ in range(CONNECT_TURNS_MAX):
        if (await asyncio.wait({connecting}, timeout=CONNECT_TURN_S))[0]:
            break
        await server.send(Apart(reason=f"waiting for Ray at {head} to take a driver from this host"))
    else:
        raise Unreachable(
            f"Ray at {head} takes no driver from this host: its token is another one, or there is no Ray node of the "
            f"cluster here, which `aliquot node start --ray-head {head} --no-agent` makes; the log says more"
        )
    try:
        version = connecting.result()
    except ConnectionError as error:
        raise Unreachable(f"Ray at {head} does not let this host in, as with another token: {error}") from error
    log.info("connected to Ray %s at %s", version, head)
    await Cluster(version=version, head=head, server=server, switchboard=switchboard).watch()


async def _run() -> None:
    """End with `main`, whatever Ray still waits for in threads."""
    await main(sys.argv[1], descriptor=int(sys.argv[2]), epoch=int(sys.argv[3]))
    os._exit(0)


if __name__ == "__main__":
    logging.basicConfig(level="INFO", stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(_run())
