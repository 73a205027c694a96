"""Certificates for tests, and a TLS server that listens on every address of the machine."""

import asyncio
import os
import re
import shutil
import signal
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx
import trustme

from aliquot.cli.acceptance.checks import kill_mentioning

PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Files:
    """A certificate and its key."""

    certificate: Path
    key: Path

    @property
    def options(self) -> tuple[str, ...]:
        return "--tls-certificate", str(self.certificate), "--tls-key", str(self.key)


class Authority:
    """Signs certificates; clients do not trust it yet."""

    def __init__(self, folder: Path, *, name: str = "ca") -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self.file = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(str(self.file))

    def issue(self, *names: str, expired: bool = False, ends: datetime | None = None, to: str = "server") -> Files:
        """A certificate for these names, replacing an older one."""
        past = {"not_before": datetime(2001, 1, 1, tzinfo=UTC), "not_after": datetime(2002, 1, 1, tzinfo=UTC)}
        made = self._ca.issue_cert(*names, **past if expired else {"not_after": ends})
        files = Files(self._folder / f"{to}.pem", self._folder / f"{to}.key")
        for path, text in ((files.certificate, made.cert_chain_pems[0]), (files.key, made.private_key_pem)):
            draft = path.with_suffix(".draft")
            text.write_to_path(str(draft))
            draft.replace(path)
        return files


class ServeProcess:
    """`aliquot serve` with a test's options."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data_folder = folder / "data"
        self.log = folder / "serve.log"
        self.port = 0
        self.authority = Authority(folder)

    async def start(self, *options: str) -> None:
        """Start it, and wait until it prints where it listens, or has ended."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "aliquot", "serve", "--port", "0", "--no-local-agents"),
                *("--data-folder", str(self.data_folder), *options),
                env={name: value for name, value in os.environ.items() if not name.startswith("ALIQUOT_")},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        async with asyncio.timeout(PATIENCE_S):
            while self._process.returncode is None:
                found = re.search(r"GraphQL +\w+://[^ ]+:(\d+)/graphql", self.printed())
                if found and "  data" in self.printed():
                    self.port = int(found[1])
                    return
                await asyncio.sleep(0.02)

    def printed(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    @asynccontextmanager
    async def http(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client with the token that trusts the certificate."""
        token = (self.data_folder / "token").read_text(encoding="utf-8").strip()
        trusted = ssl.create_default_context(cafile=str(self.authority.file))
        async with httpx.AsyncClient(
            base_url=self.url, verify=trusted, trust_env=False, headers={"authorization": f"Bearer {token}"}
        ) as http:
            yield http

    async def stop(self) -> int:
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_S):
            return await self._process.wait()


@asynccontextmanager
async def served(*options: str, tls: bool = True) -> AsyncIterator[ServeProcess]:
    """A server with a folder that job users can enter, stopped and removed at the end.

    Args:
        options: of `aliquot serve`.
        tls: whether it has a certificate, for `localhost`.
    """
    folder = Path(tempfile.mkdtemp(prefix="aliquot-tls-"))
    os.chmod(folder, 0o711)
    process = ServeProcess(folder)
    try:
        await process.start(*options, *(process.authority.issue("localhost").options if tls else ()))
        yield process
    finally:
        await process.stop()
        kill_mentioning(str(folder))
        shutil.rmtree(folder)


async def shown(port: int, authority: Authority) -> bytes | None:
    """The certificate that a new connection gets."""
    context = ssl.create_default_context(cafile=str(authority.file))
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    found: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return found
