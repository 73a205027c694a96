"""Ray token file: the secret of Ray's authentication. Its holders can execute code on every node."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from aliquot.errors import ConfigurationError


def made_token(path: Path) -> Path:
    """The file, created with a new token if it does not exist; readable only by its owner.

    Raises:
        ConfigurationError: the file cannot be created, or other users can read it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(32))
    except OSError as error:
        raise ConfigurationError(f"ray-token-file: {path} cannot be created: {error.strerror}") from None
    return checked_token(path)


def checked_token(path: Path) -> Path:
    """The file, checked to be readable only by its owner.

    Raises:
        ConfigurationError: the file does not exist, or other users can read it.
    """
    try:
        found = path.stat()
    except OSError as error:
        message = f"ray-token-file: {path} cannot be read ({error.strerror}); copy it from Ray's head"
        raise ConfigurationError(message) from None
    if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
        raise ConfigurationError(
            f"ray-token-file: other users can read {path}; run `chmod 600 {path}`, or replace the token"
        )
    return path
