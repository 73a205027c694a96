"""Folders and files that no job in the sandbox has to see, even where its account is the server's own."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aliquot.settings import FILE_VARIABLE, Settings

_OF_RECEIVERS: Final = ("url_file", "key_file", "password_file")
_SQLITE: Final = "sqlite:///"


def hidden_of(settings: Settings) -> list[Path]:
    """What a server keeps to itself: what it stores, its keys, and where the settings say what others may not know."""
    files = [
        settings.secrets_key_file,
        settings.tls_key,
        settings.ray_token_file,
        settings.metrics_token_file,
        settings.archive_folder,
        *(getattr(receiver, name, None) for receiver in settings.receivers for name in _OF_RECEIVERS),
    ]
    return [
        settings.data_folder.absolute(),
        *(path.absolute() for path in files if path is not None),
        *_database_files(settings.database or ""),
        *settings_files(),
    ]


def settings_files() -> list[Path]:
    """The file of settings, which may hold the password of a database."""
    file = os.environ.get(FILE_VARIABLE)
    return [Path(file).absolute()] if file else []


def _database_files(url: str) -> Iterator[Path]:
    """Of SQLite, where it is not in the data folder."""
    if url.startswith(_SQLITE):
        path = url.removeprefix(_SQLITE).partition("?")[0]
        yield from (Path(path + ending).absolute() for ending in ("", "-wal"))
