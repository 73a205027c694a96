"""`aliquot open`: signs a browser in to the dashboard by a one-time address."""

import os
import sys
import webbrowser
from typing import Annotated

from typer import Option

from aliquot.cli.connection.output import print_json
from aliquot.cli.connection.server import REFUSED, AsJson, AtServer, InCluster, TokenFile, fail, failures_shown

NoBrowser = Annotated[bool, Option("--no-browser", help="Only print the address.")]


def open_dashboard(
    no_browser: NoBrowser = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Print an address that signs a browser in, and open it where there is a browser.

    The address works once, within 15 minutes.
    """
    with failures_shown():
        from aliquot.client import find_place
        from aliquot.client.endpoints import login_address

        address = login_address(find_place(cluster=cluster, server=server, token_file=token_file))
    if as_json:
        print_json({"address": address})
        return
    print(address, flush=True)
    if not no_browser and has_browser() and not webbrowser.open(address):
        fail("no browser could be started; open the address yourself", code=REFUSED)


def has_browser() -> bool:
    """Whether this is a desktop: on a server, a text browser would take over the terminal."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
