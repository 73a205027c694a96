"""Options of every command that asks a server, and the one of all that end with a result."""

from pathlib import Path
from typing import Annotated

import typer


def _cluster_names() -> list[str]:
    from aliquot.client.failures import NoPlace
    from aliquot.client.places import read_clusters

    try:
        return [one.name for one in read_clusters()]
    except NoPlace:
        return []


_PANEL = "Which server"

InCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="A cluster of `aliquot clusters`; else $ALIQUOT_CLUSTER.",
        autocompletion=_cluster_names,
        rich_help_panel=_PANEL,
    ),
]
AtServer = Annotated[
    str | None,
    typer.Option(
        "--server", help="A server by its address; else $ALIQUOT_SERVER, or this machine's.", rich_help_panel=_PANEL
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help="The file with the key or token; else $ALIQUOT_TOKEN_FILE or $ALIQUOT_TOKEN.",
        rich_help_panel=_PANEL,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON, and nothing else; what a server answers has the names of GraphQL.")
]
