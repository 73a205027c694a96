"""Whether anybody listens at an address. Ray itself asks for a minute and a half before it says no."""

import asyncio
from typing import Final

REACH_S_MAX: Final = 3.0


class Unreachable(Exception):
    """There is no way to Ray now; the message says where it ends."""


async def reach(address: str) -> None:
    """Open a connection and close it again.

    Args:
        address: `HOST:PORT`.
    Raises:
        Unreachable: nobody listens, or does not answer in time.
    """
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(REACH_S_MAX):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except TimeoutError:
        raise Unreachable(f"{address} does not answer in {REACH_S_MAX:g} s") from None
    except OSError as error:
        raise Unreachable(f"{address}: {error.strerror or error}") from None
    writer.transport.abort()
