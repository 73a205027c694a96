"""Encryption keys of secrets: a file with one key per line, newest first, and its setting.

AES-256-GCM with a random nonce of 96 bits. Owner and name are authenticated data, so that a value moved to another row
is rejected. A key's id is a digest of the key and does not reveal it.
"""

import base64
import binascii
import hashlib
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pydantic import Field
from pydantic_settings import BaseSettings

from aliquot_schema.errors import Unavailable

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_ID_CHARS: Final = 16
_FILE_BYTES_MAX: Final = 65_536


class SecretKeys:
    """The key file. It is read at each use, so that a rotation needs no restart. Methods block on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def seal(self, value: bytes, *, owner: str, name: str) -> tuple[str, bytes]:
        """Encrypt with the newest key, creating the file if missing; returns (key id, nonce and ciphertext).

        Raises:
            Unavailable: the key file cannot be used.
        """
        key = self._keys(make=True)[0]
        # Imported here and below: OpenSSL takes megabytes that a server without secrets does not need.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE_BYTES)
        return key_id(key), nonce + AESGCM(key).encrypt(nonce, value, _bound(owner, name))

    def unseal(self, sealed: bytes, *, with_key: str, owner: str, name: str) -> bytes:
        """Decrypt a value.

        Raises:
            Unavailable: the key is not in the file, or the row was changed.
        """
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        for key in self._keys(make=False):
            if key_id(key) == with_key:
                try:
                    return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _bound(owner, name))
                except InvalidTag:
                    raise Unavailable(f"the secret {name} of {owner} was changed in the database") from None
        raise Unavailable(self.missing(with_key))

    def missing(self, id_: str) -> str:
        """The error message for a key that is not in the file."""
        return (
            f"secrets in the database are encrypted with the key {id_}, which {self.path} does not have; all servers "
            "of a database need the same file: copy it from the server that made it, or name it with secrets-key-file; "
            "if the key is lost, these secrets are lost: delete them with `aliquot db forget-secrets`"
        )

    def ids(self) -> tuple[str, ...]:
        """Ids of the keys in the file, newest first; empty if there is no file.

        Raises:
            Unavailable: the key file cannot be used.
        """
        return tuple(key_id(key) for key in self._keys(make=False))

    def begin_rotation(self) -> None:
        """Add a new key as the newest, durably.

        Raises:
            Unavailable: the key file cannot be used.
        """
        self._write([os.urandom(KEY_BYTES), *self._keys(make=False)])

    def end_rotation(self, *, used: Collection[str]) -> None:
        """Remove all keys but the newest and those in use: another rotation may have begun meanwhile."""
        newest, *older = self._keys(make=False)
        self._write([newest, *(key for key in older if key_id(key) in used)])

    def _keys(self, *, make: bool) -> list[bytes]:
        try:
            if make and not os.path.lexists(self.path):
                self._make()
            file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise Unavailable(
                f"the key file of secrets {self.path} cannot be read or created: {error.strerror}"
            ) from None
        with os.fdopen(file, "rb") as stream:
            if os.fstat(file).st_mode & 0o077:
                raise Unavailable(
                    f"others than its owner may read {self.path}: run chmod 600 on it, and rotate the keys"
                )
            lines = stream.read(_FILE_BYTES_MAX).split()
        if not lines:
            raise Unavailable(
                f"{self.path} holds no key; if it was emptied, the secrets it encrypted are lost: delete the file"
            )
        return [self._decoded(line) for line in lines]

    def _decoded(self, line: bytes) -> bytes:
        try:
            key = base64.b64decode(line, validate=True)
        except binascii.Error:
            key = b""
        if len(key) != KEY_BYTES:
            raise Unavailable(f"{self.path} has a line that is not a key")
        return key

    def _make(self) -> None:
        """Create the file with one key, atomically. If another process creates it first, that file is used."""
        with self._draft([os.urandom(KEY_BYTES)]) as draft, suppress(FileExistsError):
            os.link(draft, self.path)
        self._flush()

    def _write(self, keys: Sequence[bytes]) -> None:
        try:
            with self._draft(keys) as draft:
                draft.replace(self.path)
            self._flush()
        except OSError as error:
            raise Unavailable(f"the key file of secrets {self.path} cannot be written: {error.strerror}") from None

    @contextmanager
    def _draft(self, keys: Sequence[bytes]) -> Iterator[Path]:
        """A durable file with the keys, which is removed unless it was renamed."""
        draft = self.path.with_name(f".{self.path.name}.{os.urandom(8).hex()}")
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(b"".join(base64.b64encode(key) + b"\n" for key in keys))
                stream.flush()
                os.fsync(file)
            yield draft
        finally:
            draft.unlink(missing_ok=True)

    def _flush(self) -> None:
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def key_id(key: bytes) -> str:
    """The id of a key in the database."""
    return hashlib.sha256(b"aliquot secrets" + key).hexdigest()[:_ID_CHARS]


def _bound(owner: str, name: str) -> bytes:
    return f"{owner}\0{name}".encode()


KEY_FILE: Final = Path("server") / "secrets.key"


class SecretSettings(BaseSettings):
    """Settings of secrets, a part of `aliquot.settings.Settings`."""

    secrets_key_file: Path | None = Field(
        None,
        description="File with the keys that encrypt secrets, the same on all servers of a database; by default "
        "server/secrets.key in the data folder.",
    )

    def secret_keys(self, data_folder: Path) -> Path:
        """Path of the key file."""
        return self.secrets_key_file or data_folder / KEY_FILE
