"""Whom to believe at the other end of TLS."""

import ssl
from functools import lru_cache
from pathlib import Path

from aliquot.service.notices.ports import NotDelivered


def tls_context(ca_file: Path | None, *, protocol: str) -> ssl.SSLContext:
    """Made once for each file as it is now, and for each protocol, whose clients put their marks on it: to read all
    authorities takes longer than a server may stand still for each letter.

    Raises:
        NotDelivered: the file cannot be read.
    """
    try:
        return _context(ca_file, protocol, 0 if ca_file is None else ca_file.stat().st_mtime_ns)
    except (OSError, ssl.SSLError) as error:
        raise NotDelivered(f"ca-file {ca_file} cannot be read: {type(error).__name__}") from None


@lru_cache(maxsize=32)
def _context(ca_file: Path | None, _protocol: str, _changed_ns: int) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca_file)
