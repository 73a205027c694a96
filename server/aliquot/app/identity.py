"""Identity of a server: its data folder, its token, the cluster mark, and the optional OIDC provider.

The token file and the folder `server` are readable by the server's account only.
"""

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from aliquot.api.authentication import TOKEN_CHARS_MIN, ExternalAuthenticator
from aliquot.app.running import Running
from aliquot.errors import ConfigurationError
from aliquot.service.ports import StoreUnavailable
from aliquot.service.use_cases import UseCases
from aliquot.settings import Settings
from aliquot.store.cluster_mark import ClusterMark, DatabaseReplaced, MarkFile
from aliquot_schema.ids import UserId

if TYPE_CHECKING:
    from aliquot.api.oidc.code_flow import CodeFlow


class IdentityProvider(Struct, frozen=True, kw_only=True):
    """What a configured identity provider adds to the server."""

    door: ExternalAuthenticator
    flow: "CodeFlow"


def identity_provider(settings: Settings, cases: UseCases, *, owner: UserId, token: str) -> IdentityProvider | None:
    """Sign-in by OIDC; None when no provider is configured.

    Args:
        owner: the user of the server's own token.
        token: that token, which signs cookies.
    Raises:
        ConfigurationError: the file of the client's secret cannot be read.
    """
    if settings.oidc_issuer is None:
        return None
    # Imported here: servers without a provider do not load the cryptography.
    from aliquot.api.oidc.code_flow import CodeFlow, Discovery
    from aliquot.api.oidc.jwks import ProviderKeys
    from aliquot.api.oidc.tokens import OidcAuthenticator, Tokens
    from aliquot.service.accounts.federation import Federation

    people, keys = cases.state.people, ProviderKeys(settings.oidc_issuer)
    federation = Federation(
        users=cases.accounts,
        people=people,
        journal=cases.journal,
        clock=cases.clock,
        is_open=settings.oidc_users == "new",
        owner=owner,
    )
    checked = partial(Tokens, keys, issuer=settings.oidc_issuer, leeway_s=settings.oidc_leeway_s)
    tokens = checked(audience=settings.oidc_audience)
    door = OidcAuthenticator(tokens, terms=settings, federation=federation, people=people)
    client_id = settings.oidc_client_id or settings.oidc_audience
    flow = CodeFlow(
        Discovery(settings.oidc_issuer),
        issuer=settings.oidc_issuer,
        client_id=client_id,
        client_secret=_client_secret(settings.oidc_client_secret_file),
        tokens=checked(audience=client_id),
        door=door,
        secret=token.encode(),
        session_s=settings.oidc_sign_in_s,
    )
    return IdentityProvider(door=door, flow=flow)


def _client_secret(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        secret = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"oidc-client-secret-file: {path} cannot be read: {error}") from None
    if not secret:
        raise ConfigurationError(f"oidc-client-secret-file: {path} is empty")
    return secret


log: Final = logging.getLogger("aliquot.app")

MARK_PERIOD_S: Final = 5.0
"""Minimum interval between two writes of the mark."""
_LAST_MARK_S_MAX: Final = 2.0
"""Bound on how long a database that does not answer delays shutdown."""


def make_folders(data_folder: Path) -> None:
    """Make the data folder (mode 711: job users may traverse it) with its private folder `server` (mode 700).

    Raises:
        ConfigurationError: a folder cannot be made or written.
    """
    try:
        data_folder.mkdir(parents=True, exist_ok=True)
        data_folder.chmod(0o711)
        for name, mode in (("server", 0o700), ("agents", 0o711)):
            (data_folder / name).mkdir(exist_ok=True)
            (data_folder / name).chmod(mode)
    except OSError as error:
        raise ConfigurationError(
            f"data-folder: {data_folder} cannot be used ({error.strerror}); give another with --data-folder"
        ) from error


def read_token(path: Path) -> str:
    """The server's token; made at the first start, readable by its owner only.

    A file that others can read is reported and left as it is: another account may have read the token, so a new one is
    needed.

    Raises:
        ConfigurationError: the file holds no token, or cannot be read.
    """
    try:
        if not os.path.lexists(path):
            _make_token(path)
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the token file {path} cannot be read or made: {error}") from None
    if mode & 0o077:
        log.error(
            "the token file %s has mode %03o: other accounts of this machine can read it or could, and the token gives "
            "every right. Stop the server, delete the file and start again: that makes a new token, and you sign in "
            "again. If no other person has an account here, `chmod 600` is enough",
            path,
            mode,
        )
    if len(token) < TOKEN_CHARS_MIN or not token.isascii():
        raise ConfigurationError(
            f"the token file {path} must hold at least {TOKEN_CHARS_MIN} ASCII characters; delete it to have one made"
        )
    return token


@asynccontextmanager
async def mark_kept(running: Running, file: MarkFile) -> AsyncIterator[None]:
    """Keep the cluster mark near the end of the log while the context is open, and write it once more at its end."""
    keeper = _ClusterMarkWriter(running, file)
    loop = asyncio.create_task(keeper.run(), name="cluster mark")
    try:
        yield
    finally:
        loop.cancel()
        with suppress(asyncio.CancelledError):
            await loop
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_MARK_S_MAX):
                await keeper.run_once()


class _ClusterMarkWriter:
    def __init__(self, running: Running, file: MarkFile) -> None:
        self._running = running
        self._file = file
        self._revision = -1
        self._is_impaired = False

    async def run(self) -> None:
        while True:
            await self.run_once()
            await asyncio.sleep(MARK_PERIOD_S)

    async def run_once(self) -> None:
        """Write the mark if the log has grown since the last one. Stop the server if its database was replaced."""
        revision, known = self._running.cases.state.revision, None
        try:
            known = await asyncio.to_thread(self._file.read)
            mark = await self._running.database.mark(known, revision)
            if mark is not None and revision != self._revision:
                await asyncio.to_thread(self._file.advance, mark)
        except DatabaseReplaced as error:
            await self._stop(known, words=str(error))
            return
        except StoreUnavailable:
            return  # retried in the next period; the health conditions report the database
        except OSError as error:
            if not self._is_impaired:
                log.warning("the cluster mark %s cannot be written: %s", self._file.path, error)
            self._is_impaired = True
            return
        self._revision, self._is_impaired = revision, False

    async def _stop(self, known: ClusterMark | None, *, words: str) -> None:
        log.critical("%s; this server stops, so that nothing is written into the wrong database", words)
        last = self._running.cases.feed.last
        if last is not None and (known is None or known.event < last.number):
            # The next start refuses the database, also if it has the event of the last mark.
            mark = ClusterMark(cluster=None, event=last.number, hash="", entity_id=last.entity_id, at_us=last.at_us)
            with suppress(OSError):
                await asyncio.to_thread(self._file.advance, mark)
        self._running.failed.set()


def _make_token(path: Path) -> None:
    """Write the file atomically and durably: half a token, or an empty file after a power failure, would lock everyone
    out."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process has made it first
            os.link(partial, path)
    finally:
        partial.unlink(missing_ok=True)
