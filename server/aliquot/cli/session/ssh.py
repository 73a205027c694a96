"""`aliquot ssh-config` and `aliquot ssh-proxy`: ssh, scp and rsync reach a session by the name `aliquot-ID`."""

import asyncio
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated, Final

from typer import Argument

from aliquot.cli.connection.server import REFUSED, AtServer, InCluster, TokenFile, fail, failures_shown
from aliquot.cli.session.names import find_id

PREFIX: Final = "aliquot-"
INSTALL: Final = "asyncssh is not installed; `pip install 'aliquot[ssh]'` installs it"
Host = Annotated[str, Argument(metavar="HOST", help=f"{PREFIX}ID, with the id of a running session or the end of it.")]


def ssh_config(cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None) -> None:
    """Print the lines for ~/.ssh/config that make `ssh aliquot-ID` connect to a running session.

    Add them with: aliquot ssh-config >> ~/.ssh/config
    """
    program = shutil.which("aliquot") or str(Path(sys.executable).with_name("aliquot"))
    options = [("--cluster", cluster), ("--server", server), ("--token-file", token_file and token_file.absolute())]
    given = [word for name, value in options if value is not None for word in (name, str(value))]
    print(f"""Host {PREFIX}*
    ProxyCommand {shlex.join([program, "ssh-proxy", *given])} %n
    # The proxy is a program of this machine, which ssh starts itself; its key is a new one each time.
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
    ForwardAgent no""")


def ssh_proxy(host: Host, cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None) -> None:
    """Serve one SSH connection on standard input and output. ssh runs this, see `aliquot ssh-config`."""
    from aliquot.client import find_place

    try:
        from aliquot.cli.session.ssh_server import serve
    except ModuleNotFoundError:
        fail(INSTALL, code=REFUSED)
    with failures_shown():
        place = find_place(cluster=cluster, server=server, token_file=token_file)
        id = find_id(place, host.removeprefix(PREFIX))
    asyncio.run(serve(place, id))
    # The thread that reads standard input would keep the program from ending.
    sys.stdout.flush()
    os._exit(0)
