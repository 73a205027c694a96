"""`--sync` and `--env`: uploads the working directory, and finds the environment that a command runs in."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aliquot.cli.connection.output import count_text, printable
from aliquot.cli.connection.server import usage
from aliquot_schema.resources.units import size_text
from aliquot_schema.sessions import UV

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.inputs import CreateSessionInput

_FORMS: Final = "uv, venv, conda, conda:NAME, or the path of an environment"


def environments_of(texts: Sequence[str] | None) -> tuple[list[str] | None, str | None]:
    """Split the values of `--env` into variables, `NAME=VALUE`, and the environment to activate."""
    given = texts or ()
    names = [text for text in given if "=" not in text]
    if len(names) > 1:
        usage(f"--env: {printable(names[0])} and {printable(names[1])} are two environments; give one")
    return [text for text in given if "=" in text] or None, activated_by(names[0]) if names else None


def activated_by(name: str) -> str:
    """`uv`, or the path of the environment that a name means on this machine."""
    kind, _, given = name.partition(":")
    if name == UV:
        return UV
    if name == "venv":
        places = (os.environ.get("VIRTUAL_ENV") or ".venv", ".venv", "venv")
        found = next(filter(_is_environment, map(Path, places)), None)
        if found is None:
            usage("--env venv: no environment is active, and there is no .venv and no venv here")
        return str(found.absolute())
    if kind == "conda":
        return _conda(given)
    if "/" not in name:
        usage(f"--env: {printable(name)} is neither NAME=VALUE nor {_FORMS}")
    return str(Path(name).expanduser().absolute())


def _conda(name: str) -> str:
    active, program = os.environ.get("CONDA_PREFIX"), os.environ.get("CONDA_EXE")
    if not name:
        if active is None:
            usage("--env conda: no conda environment is active; name one, as conda:NAME")
        return active
    if program is None:
        usage("--env conda:NAME: conda is not set up in this shell; give the path of the environment")
    return str(Path(program).parent.parent / "envs" / name)


def _is_environment(path: Path) -> bool:
    return (path / "bin" / "python").exists()


def synced(client: "BlockingClient", wanted: "CreateSessionInput", folder: Path | None) -> "CreateSessionInput":
    """The request with the uploaded folder as its workspace; says on standard error what was uploaded."""
    if folder is None:
        return wanted
    from msgspec.structs import replace

    from aliquot.client.workspaces import WorkspaceFault

    try:
        found = client.upload(folder)
    except WorkspaceFault as error:
        usage(f"--sync: {error}")
    print(f"aliquot: {printable(folder)}: {count_text(found.files, 'file')}, {size_text(found.bytes)}", file=sys.stderr)
    return replace(wanted, workspace=found.id)
