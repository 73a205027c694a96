"""The data folder and what is in it that is the server's alone."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from aliquot.api.authentication import TOKEN_CHARS_MIN
from aliquot.errors import ConfigurationError

TOKEN_FILE: Final = "token"


def make_folders(data_folder: Path) -> None:
    """The data folder, which job users may pass through, with the part inside that is the server's alone.

    Raises:
        ConfigurationError: it cannot be made or written.
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
    """The server's token; made at the first start, readable by its owner alone.

    Raises:
        ConfigurationError: the file holds no token, or cannot be read.
    """
    try:
        if not os.path.lexists(path):
            _make_token(path)
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as file:
            os.fchmod(file.fileno(), 0o600)
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the token file {path} cannot be read or made: {error}") from None
    if len(token) < TOKEN_CHARS_MIN or not token.isascii():
        raise ConfigurationError(
            f"the token file {path} must hold at least {TOKEN_CHARS_MIN} ASCII characters; delete it to have one made"
        )
    return token


def _make_token(path: Path) -> None:
    """As a whole or not at all: half a token, on a full disk, would let nobody in ever after."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        with suppress(FileExistsError):  # somebody else was quicker
            os.link(partial, path)
    finally:
        partial.unlink(missing_ok=True)
