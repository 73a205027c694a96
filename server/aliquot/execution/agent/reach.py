"""How kernels of other nodes reach a kernel of this one: its address, and the ports where gangs meet."""

import socket
from dataclasses import dataclass
from typing import Final, Self

from aliquot.errors import ConfigurationError
from aliquot_schema.agents import Capabilities

_SOMEWHERE: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses for documentation (RFC 5737, 3849): nothing is sent there, the system only says which way it would go."""
_PORT: Final = 9
_UNPRIVILEGED: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What an operator says of it."""

    address: str | None = None
    """None = the address of the way to the server, or else of the way out."""
    port_first: int = Capabilities().port_first
    port_last: int = Capabilities().port_last

    @classmethod
    def of(cls, *, address: str | None, ports: str | None) -> Self:
        """From what is written: `29500-30499`.

        Raises:
            ConfigurationError: the ports are no range of unprivileged ones.
        """
        if ports is None:
            return cls(address=address)
        first, _, last = ports.partition("-")
        if first.isdecimal() and last.isdecimal() and _UNPRIVILEGED <= int(first) <= int(last) < 1 << 16:
            return cls(address=address, port_first=int(first), port_last=int(last))
        raise ConfigurationError(f"rendezvous-ports: {ports!r} is no range of ports like 29500-30499")


def own_address(server: str = "") -> str:
    """This machine's address as others on the way to the server see it; the loopback one where there is no way out.

    Args:
        server: its host; one that is this machine, or is not known, tells nothing.
    """
    found = [_toward(server)] if server else []
    found += [_source(family, place) for family, place in _SOMEWHERE]
    return next((address for address in found if address), "127.0.0.1")


def _toward(server: str) -> str | None:
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(server, _PORT, type=socket.SOCK_DGRAM)
    except OSError:
        return None
    return _source(family, str(address[0]))


def _source(family: int, place: str) -> str | None:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((place, _PORT))
            address = str(probe.getsockname()[0])
    except OSError:
        return None
    return None if address == "::1" or address.startswith("127.") else address
