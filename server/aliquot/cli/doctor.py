"""`aliquot doctor`: what the store, the agents and their devices do not agree about, just now."""

import json
from typing import Any, Final

import typer

from aliquot.cli.running_server import LOCAL, ServerUrl, TokenFile, ask
from aliquot.cli.stopped_server import AsJson

EXAMINATION: Final = """
{ doctor { differences { kind agent_id subject evidence since repair } asked silent } }
"""


def doctor(server: ServerUrl = LOCAL, token_file: TokenFile = None, as_json: AsJson = False) -> None:
    """Have every agent asked, and print what does not agree. Nothing is changed. The exit code is 1 if there is any."""
    found = ask(lambda client: client.execute(EXAMINATION), server=server, token_file=token_file)["doctor"]
    if as_json:
        print(json.dumps(found))
    else:
        _print(found)
    if found["differences"]:
        raise typer.Exit(1)


def _print(found: dict[str, Any]) -> None:
    for one in found["differences"]:
        since = f"since {one['since']}" if one["since"] else "seen just now"
        print(f"{one['kind']}  {one['subject']}  on {one['agent_id']}, {since}: {one['evidence']}")
        if one["repair"]:
            print(f"    {one['repair']}")
    if found["silent"]:
        print(f"not asked, for they cannot be reached: {', '.join(found['silent'])}")
    count = len(found["differences"])
    print(f"{len(found['asked'])} agents asked, {count} difference{'' if count == 1 else 's'}")
