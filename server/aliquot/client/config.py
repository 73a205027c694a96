"""Client configuration: selects server and token from arguments, environment, the clusters file, or this machine.

The file is `~/.config/aliquot/clusters.toml` (or `$XDG_CONFIG_HOME/aliquot/clusters.toml`):

    default = "lab"

    [clusters.lab]
    url = "https://gpu.example.org:8090"
    key-file = "~/.config/aliquot/lab.key"   # or: key = "..."
    ca-file = "~/.config/aliquot/lab.pem"    # if the certificate's authority is your own
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aliquot.client.errors import NoPlace

LOCAL_URL: Final = "http://127.0.0.1:8090"
SERVER_VARIABLE: Final = "ALIQUOT_SERVER"
TOKEN_VARIABLE: Final = "ALIQUOT_TOKEN"
TOKEN_FILE_VARIABLE: Final = "ALIQUOT_TOKEN_FILE"
CLUSTER_VARIABLE: Final = "ALIQUOT_CLUSTER"
FOLDER_VARIABLE: Final = "ALIQUOT_DATA_FOLDER"
CA_VARIABLE: Final = "ALIQUOT_CA_FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A server, and the token for it."""

    url: str
    token: str = field(repr=False)
    ca_file: Path | None = None
    """The authority of the server's certificate, in PEM; by default those that this machine trusts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One entry of the clusters file."""

    name: str
    url: str
    key: str | None = field(default=None, repr=False)
    key_file: Path | None = None
    ca_file: Path | None = None
    is_default: bool = False

    def place(self, *, token_file: Path | None = None) -> Place:
        """The server with its key, or with the token in another file.

        Raises:
            NoPlace: the key cannot be read.
        """
        key = None if token_file else self.key
        return Place(url=self.url, token=key or _read(token_file or self.key_file or Path()), ca_file=self.ca_file)


def find_place(*, cluster: str | None = None, server: str | None = None, token_file: Path | None = None) -> Place:
    """Select a server: by the arguments, then the environment, then the clusters file, then this machine's.

    Raises:
        NoPlace: no such cluster, or no token for it; or both a cluster and a server are given.
    """
    found = find_cluster(cluster=cluster, server=server)
    if found is not None:
        return found.place(token_file=token_file)
    url, ca_file = server_without_cluster(server)
    return Place(url=url, token=_token(token_file), ca_file=ca_file)


def find_cluster(*, cluster: str | None = None, server: str | None = None) -> Cluster | None:
    """The entry of the clusters file that arguments, environment or the file's default select; None if a server is
    selected by its address.

    Raises:
        NoPlace: no such cluster; or both a cluster and a server are given.
    """
    if cluster and server:
        raise NoPlace("both a cluster and a server are given; give one of them")
    if server or (not cluster and os.environ.get(SERVER_VARIABLE)):
        return None
    name = cluster or os.environ.get(CLUSTER_VARIABLE)
    return _named(name) if name else next((one for one in read_clusters() if one.is_default), None)


def server_without_cluster(server: str | None = None) -> tuple[str, Path | None]:
    """Address and authority of a server that no cluster names: by the argument, the environment, or this machine's."""
    authority = os.environ.get(CA_VARIABLE)
    return server or os.environ.get(SERVER_VARIABLE) or LOCAL_URL, Path(authority) if authority else None


def read_clusters() -> tuple[Cluster, ...]:
    """The entries of the clusters file, in its order; none when there is no file.

    Raises:
        NoPlace: the file cannot be read, or is not a clusters file.
    """
    path = clusters_file()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise NoPlace(f"{path}: {error}") from None
    import tomllib  # most machines have no such file

    try:
        table = tomllib.loads(text)
    except ValueError as error:
        raise NoPlace(f"{path}: {error}") from None
    except RecursionError:
        raise NoPlace(f"{path}: nested too deeply") from None
    entries = table.get("clusters", {})
    if not isinstance(entries, dict) or table.keys() - {"clusters", "default"}:
        raise NoPlace(f"{path}: only `default`, and tables [clusters.NAME] with url and key or key-file are valid")
    return tuple(_cluster(name, entry, default=table.get("default"), path=path) for name, entry in entries.items())


def clusters_file() -> Path:
    """The path of the clusters file."""
    folder = os.environ.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "aliquot" / "clusters.toml"


def local_token_file() -> Path:
    """The token file of a server of this machine and account."""
    named = os.environ.get(FOLDER_VARIABLE)
    root = Path("/var/lib/aliquot") if os.geteuid() == 0 else Path.home() / ".local" / "share" / "aliquot"
    return (Path(named) if named else root) / "token"


def _named(name: str) -> Cluster:
    known = {one.name: one for one in read_clusters()}
    if name not in known:
        names = f"it has {', '.join(known)}" if known else "it has none yet"
        raise NoPlace(f"{clusters_file()} has no cluster {name}; {names}")
    return known[name]


def _cluster(name: str, entry: Mapping[str, Any], *, default: object, path: Path) -> Cluster:
    known = isinstance(entry, dict) and not entry.keys() - {"url", "key", "key-file", "ca-file"}
    if not known or not all(isinstance(text, str) for text in entry.values()) or "url" not in entry:
        raise NoPlace(f"{path}: [clusters.{name}] needs url, key or key-file, and may have ca-file, all as text")
    if ("key" in entry) == ("key-file" in entry):
        raise NoPlace(f"{path}: [clusters.{name}] needs one of key and key-file")
    key_file, ca_file = (Path(entry[one]).expanduser() if one in entry else None for one in ("key-file", "ca-file"))
    is_default = name == default
    return Cluster(
        name=name, url=entry["url"], key=entry.get("key"), key_file=key_file, ca_file=ca_file, is_default=is_default
    )


def _token(file: Path | None) -> str:
    if file is None and os.environ.get(TOKEN_VARIABLE):
        return _only_key(os.environ[TOKEN_VARIABLE], source=TOKEN_VARIABLE)
    named = os.environ.get(TOKEN_FILE_VARIABLE)
    return _read(file or (Path(named) if named else local_token_file()))


def _read(file: Path) -> str:
    try:
        text = file.expanduser().read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a token"
        raise NoPlace(f"no token in {file}: {why}; give --token-file, or a key in {clusters_file()}") from None
    return _only_key(text, source=str(file))


def _only_key(text: str, *, source: str) -> str:
    """The only line that is neither empty nor a comment."""
    lines = [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]
    if len(lines) != 1:
        raise NoPlace(
            f"{source}: it must have one key on one line; it has {f'{len(lines)} lines' if lines else 'none'}"
        )
    if not lines[0].isascii():
        raise NoPlace(f"{source}: it is not a token; it has characters beyond ASCII")
    return lines[0]
