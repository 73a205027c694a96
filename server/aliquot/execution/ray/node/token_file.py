"""The token that opens Ray's doors: code execution on every node, for whoever has it."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from aliquot.errors import ConfigurationError


def made_token(path: Path) -> Path:
    """The file, with a new token if there was none; readable by its owner alone.

    Raises:
        ConfigurationError: it cannot be made, or others can read it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(32))
    except OSError as error:
        raise ConfigurationError(f"ray-token-file: {path} cannot be made: {error.strerror}") from None
    return checked_token(path)


def checked_token(path: Path) -> Path:
    """The file, which nobody else can read.

    Raises:
        ConfigurationError: there is none, or others can read it.
    """
    try:
        found = path.stat()
    except OSError as error:
        words = f"ray-token-file: {path} cannot be read ({error.strerror}); copy it from Ray's head"
        raise ConfigurationError(words) from None
    if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
        raise ConfigurationError(f"ray-token-file: others can read {path}; do `chmod 600 {path}`, or make a new one")
    return path
