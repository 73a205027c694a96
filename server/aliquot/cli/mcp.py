"""`aliquot mcp`: the cluster as tools of the Model Context Protocol, for programs that submit and follow jobs."""

from typing import TYPE_CHECKING, Annotated, Final

from typer import Option

from aliquot.cli.connection.server import AtServer, InCluster, TokenFile, usage

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context

    from aliquot.client import Client

HOST: Final = "127.0.0.1"


def mcp(
    http: Annotated[
        int | None,
        Option(
            "--http",
            metavar="PORT",
            min=1,
            max=65535,
            help="Serve on this port of 127.0.0.1 at /mcp, instead of on standard input and output. Each request must "
            "carry an API key: `Authorization: Bearer KEY`.",
        ),
    ] = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
) -> None:
    """Offer the cluster to a program as tools: gpus, queue, why, submit, logs, wait, cancel, reserve, usage.

    Every call acts with the caller's API key, and has its rights. Create one for each program:
    `aliquot key new USER --name lab-bot --scope submit`.
    """
    from aliquot.client import Client, NoPlace, find_place

    try:
        from aliquot.client.mcp_tools import tool_server
    except ModuleNotFoundError as error:
        if error.name not in ("mcp", "mcp_types"):
            raise
        usage("the package `mcp` is not installed: pip install 'aliquot[mcp]'")
    try:
        place = find_place(cluster=cluster, server=server, token_file=token_file)
    except NoPlace as error:
        usage(str(error))

    def of_request(context: "Context") -> "Client":
        return Client(place.url, _bearer(context), ca_file=place.ca_file)

    if http is None:
        tool_server(lambda _: Client.at(place)).run("stdio")
    else:
        tool_server(of_request).run("streamable-http", host=HOST, port=http, stateless_http=True, json_response=True)


def _bearer(context: "Context") -> str:
    from mcp.server.mcpserver.exceptions import ToolError

    headers = context.headers or {}
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise ToolError("no API key: send it as `Authorization: Bearer KEY`; `aliquot key new` makes one")
    return key.strip()
