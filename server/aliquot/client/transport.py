"""How a server is reached: its address, and the certificate that it must show."""

import ssl
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from aliquot.client.failures import NoPlace

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def is_loopback(url: str) -> bool:
    """Whether it is this machine, which no proxy of the environment can reach."""
    return urlsplit(url).hostname in LOOPBACK


def check_address(url: str) -> None:
    """Refuse what is no address of a server.

    Raises:
        NoPlace: it is none.
    """
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    is_plain = url.startswith(("http://", "https://")) and url.isprintable() and not {" ", "?", "#"} & set(url)
    if not (is_address and is_plain):
        raise NoPlace(f"{url!r} is no address of a server; it is written like https://gpu01:8090")


def trusting(ca_file: Path) -> ssl.SSLContext:
    """What trusts this authority alone.

    Raises:
        NoPlace: there is no certificate in the file.
    """
    try:
        return ssl.create_default_context(cafile=ca_file.expanduser())
    except OSError as error:
        raise NoPlace(f"no certificate in {ca_file}: {error.strerror or error}") from None
