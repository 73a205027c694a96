"""`aliquot clusters`: the file of named clusters, with their addresses and keys."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

from aliquot.cli.connection.output import cells, print_json, print_result, show_table, table
from aliquot.cli.connection.server import AsJson, usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aliquot.client.config import Cluster


clusters: Final = typer.Typer(no_args_is_help=True, help="Name clusters, for --cluster and as the default.")

Name = Annotated[str, Argument(metavar="NAME", help="A name of your choice.")]
Url = Annotated[str, Argument(metavar="URL", help="The server's address, like https://gpu.example.org:8090.")]
KeyFile = Annotated[Path, Option(help="The file with your key; it is not copied.")]
CaFile = Annotated[Path | None, Option(help="The certificate's authority, in PEM, if this machine does not trust it.")]
Default = Annotated[bool, Option("--default", help="Make it the default cluster.")]


@clusters.command("list")
def list_clusters(as_json: AsJson = False) -> None:
    """List the named clusters. Keys are not printed."""
    from aliquot.client.config import clusters_file

    found = _read()
    if as_json:
        print_json([_plain(one) for one in found])
    elif not found:
        print(f"{clusters_file()} names no cluster; `aliquot clusters add NAME URL --key-file FILE` adds one")
    else:
        rows = table("cluster", "address", "key", "")
        for one in found:
            key = "in the file itself" if one.key_file is None else str(one.key_file)
            rows.add_row(*cells(one.name, one.url, key, "default" if one.is_default else ""))
        show_table(rows)


@clusters.command("add")
def add(
    name: Name,
    url: Url,
    key_file: KeyFile,
    ca_file: CaFile = None,
    default: Default = False,
    as_json: AsJson = False,
) -> None:
    """Add a cluster, or replace the one of that name. The first one becomes the default."""
    from aliquot.client.config import Cluster

    if not url.startswith(("http://", "https://")):
        usage(f"{url}: an address starts with https:// or http://")
    key_file = _absolute(key_file)
    try:
        key_file.stat()
    except OSError as error:
        usage(f"--key-file {key_file}: {error.strerror}")
    others = [one for one in _read() if one.name != name]
    is_default = default or not any(one.is_default for one in others)
    made = Cluster(name=name, url=url, key_file=key_file, ca_file=ca_file and _absolute(ca_file))
    _write([*others, made], default=name if is_default else None)
    _print(_known(name, _read()), as_json=as_json)


@clusters.command("use")
def use(name: Name, as_json: AsJson = False) -> None:
    """Make a cluster the default."""
    found = _read()
    _known(name, found)
    _write(found, default=name)
    _print(_known(name, _read()), as_json=as_json)


@clusters.command("remove")
def remove(name: Name, as_json: AsJson = False) -> None:
    """Remove a cluster from the list; its key file is kept."""
    found = _read()
    removed = _known(name, found)
    _write([one for one in found if one.name != name], default=None)
    _print(removed, as_json=as_json)


def _read() -> "list[Cluster]":
    from aliquot.client.config import read_clusters
    from aliquot.client.errors import NoPlace

    try:
        return list(read_clusters())
    except NoPlace as error:
        usage(str(error))


def _known(name: str, found: "Sequence[Cluster]") -> "Cluster":
    known = next((one for one in found if one.name == name), None)
    if known is None:
        usage(f"there is no cluster {name}; `aliquot clusters list` shows all clusters")
    return known


def _write(found: "Sequence[Cluster]", *, default: str | None) -> None:
    """Replace the file atomically. It may contain keys, so only its owner may read it."""
    from aliquot.client.config import clusters_file

    kept = next((one.name for one in found if one.is_default), None)
    chosen = default or kept
    lines = [f"default = {_toml(chosen)}", ""] if chosen else []
    for one in found:
        key = f"key = {_toml(one.key)}" if one.key is not None else f"key-file = {_toml(str(one.key_file))}"
        authority = [f"ca-file = {_toml(str(one.ca_file))}"] if one.ca_file is not None else []
        lines += [f"[clusters.{_toml(one.name)}]", f"url = {_toml(one.url)}", key, *authority, ""]
    path = clusters_file()
    fresh = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        fresh.replace(path)
    except OSError as error:
        usage(f"{path} cannot be written: {error.strerror}")


def _print(changed: "Cluster", *, as_json: bool) -> None:
    from aliquot.client.config import clusters_file

    print_result(_plain(changed), text=f"{clusters_file()} is written", as_json=as_json)


def _plain(one: "Cluster") -> dict[str, object]:
    return {"name": one.name, "url": one.url, "is_default": one.is_default}


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


def _toml(text: str) -> str:
    """A basic TOML string, which is escaped like JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
