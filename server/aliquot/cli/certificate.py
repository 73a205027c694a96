"""The server's certificate: read at start, and again when it was renewed on disk."""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final

from aliquot.errors import ConfigurationError

LOOK_S: Final = 2.0
"""How often the files are looked at."""

log: Final = logging.getLogger("aliquot.tls")


class Certificate:
    """A certificate and its key. Connections that are there keep the one that they were made with."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Read the files.

        Raises:
            ConfigurationError: they cannot be used; the message says why.
        """
        self._files = (certificate, key)
        self._seen = self._stamps()
        self.context = self._loaded()

    def renew(self) -> bool:
        """Take up files that have changed; whether they could be.

        A pair that does not fit, as while it is being replaced, is left alone until it changes again.
        """
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        self._seen = stamps
        try:
            self._loaded()
            self.context.load_cert_chain(*self._files)
        except (ConfigurationError, OSError) as error:
            log.error("the certificate has changed and is not taken up: %s", error)
            return False
        log.info("the certificate in %s was renewed", self._files[0])
        return True

    async def keep_fresh(self) -> None:
        """Look for a renewed certificate again and again."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.renew()

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        certificate, key = self._files
        for name, path in (("tls-certificate", certificate), ("tls-key", key)):
            try:
                path.read_bytes()
            except OSError as error:
                raise ConfigurationError(f"{name}: {path} cannot be read ({error.strerror})") from None
        try:
            context.load_cert_chain(certificate, key, password=_no_passphrase)
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            words = f"{certificate} and {key} are no certificate and key that belong together, without a passphrase"
            raise ConfigurationError(f"tls-certificate: {words} ({reason})") from None
        return context

    def _stamps(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_stamp, self._files))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _no_passphrase() -> str:
    """Without this the library asks the terminal."""
    return ""
