"""`aliquot session open` and `aliquot jupyter`: opens a web service of a session in the browser."""

import asyncio
import json
import sys
import time
import webbrowser
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Argument, Option

from aliquot.cli.connection.output import print_json
from aliquot.cli.connection.server import (
    REFUSED,
    AsJson,
    AtServer,
    InCluster,
    TokenFile,
    connected,
    fail,
    failure_text,
    usage,
)
from aliquot.cli.open import NoBrowser, has_browser
from aliquot.cli.session import options as o
from aliquot.cli.session.names import find_session
from aliquot.cli.session.options import SessionId, seconds_of, slots_of
from aliquot.cli.session.shell import TIME_LIMIT_S, WaitLimit, until_running

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.config import Place
    from aliquot.client.generated.sessions import Session

AppName = Annotated[str | None, Argument(metavar="NAME", help="Name of the app; required if the session has several.")]
Idle = Annotated[str, Option(metavar="DURATION", help="End the session after this time without a busy kernel.")]
Folder = Annotated[str | None, Option("--folder", metavar="FOLDER", help="Folder of the notebooks on the node.")]
LISTENS_S_MAX: Final = 60.0
LOOK_EVERY_S: Final = 0.1
SLOTS: Final = ("gpu=0.25",)


def open_app(
    session_id: SessionId,
    name: AppName = None,
    no_browser: NoBrowser = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Open an app of a running session: prints an address that signs one browser in, within 30 seconds."""
    from aliquot.client import find_place

    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        session = client.get_session(find_session(client, session_id))
        place = find_place(cluster=cluster, server=server, token_file=token_file)
        _show(place, session, name, no_browser=no_browser, as_json=as_json)


def jupyter(
    gpus: o.Gpus = None,
    resources: o.Resources = None,
    idle: Idle = "1h",
    folder: Folder = None,
    time_limit: WaitLimit = None,
    project: o.Project = None,
    pool: o.Pool = None,
    env: o.Environment = None,
    no_browser: NoBrowser = False,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Start a session with JupyterLab and open it in the browser. JupyterLab must be installed on the node.

    It ends when it is canceled, after --idle without activity, or at its time limit. A busy kernel counts as
    activity; an open tab does not.
    """
    from aliquot.client import find_place
    from aliquot.client.generated.inputs import AppInput, CommandInput, CreateSessionInput, NameValueInput

    wanted = preset("jupyter")
    own = {"APP_IDLE_S": str(round(seconds_of(idle, option="--idle") or 0))}
    own |= {"NOTEBOOK_DIR": folder} if folder else {}
    given = list(o.pairs_of(env, option="-e") or ())
    request = CreateSessionInput(
        command=CommandInput(argv=("/bin/sh", "-c", wanted["command"])),
        name="jupyter",
        slots=slots_of(resources or (SLOTS if gpus is None else ()), gpus=gpus),
        time_limit=seconds_of(time_limit, option="--time-limit") or TIME_LIMIT_S,
        project=project,
        pool=pool,
        environment=[*(NameValueInput(name=name, value=value) for name, value in own.items()), *given],
        apps=[AppInput(name=wanted["app"])],
    )
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        place = find_place(cluster=cluster, server=server, token_file=token_file)
        session = client.submit_once(request)
        if not as_json:
            print(session.id, flush=True)
        until_running(client, session.id)
        began = time.monotonic()
        asyncio.run(_until_listening(place, session.id, _service(client, session.id)))
        print(f"aliquot: it listens after {time.monotonic() - began:.1f} s", file=sys.stderr)
        _show(place, client.get_session(session.id), None, no_browser=no_browser, as_json=as_json)


def preset(name: str) -> dict[str, Any]:
    """A preset of `aliquot_schema/presets.json`."""
    found: dict[str, Any] = json.loads(files("aliquot_schema").joinpath("presets.json").read_text(encoding="utf-8"))[
        name
    ]
    return found


def _service(client: "BlockingClient", id: str) -> int:
    port = client.get_session(id).services[0].port
    assert port is not None
    return port


async def _until_listening(place: "Place", id: str, port: int) -> None:
    from aliquot.client.errors import Refused, ServerUnreachable
    from aliquot.client.streams import SessionStream

    give_up = time.monotonic() + LISTENS_S_MAX
    while True:
        try:
            await (await SessionStream.open(place, id, {"rank": 0, "port": port})).close()
        except Refused as error:
            if error.answer.get("error") != "not_found":
                fail(f"{failure_text(error)}; `aliquot session logs {id}` shows what it printed", code=REFUSED)
        except ServerUnreachable:
            pass
        else:
            return
        if time.monotonic() > give_up:
            fail(f"it does not listen after {LISTENS_S_MAX:g} s; see `aliquot session logs {id}`", code=REFUSED)
        await asyncio.sleep(LOOK_EVERY_S)


def _show(place: "Place", session: "Session", name: str | None, *, no_browser: bool, as_json: bool) -> None:
    from aliquot.client import ClientFailure
    from aliquot.client.endpoints import app_address
    from aliquot.client.errors import Refused
    from aliquot_schema.errors import AliquotError

    services = {service.name: service for service in session.services}
    if not services:
        usage(f"{session.id} has no apps; submit it with --app NAME, or forward a port")
    if name is None and len(services) > 1:
        usage(f"{session.id} has several apps; name one of {', '.join(services)}")
    chosen = services.get(name or next(iter(services)))
    if chosen is None:
        usage(f"{session.id} has no app {name}; it has {', '.join(services)}")
    try:
        address = app_address(place, chosen.url)
    except Refused as refused:
        fail(str(refused.answer["message"]), code=REFUSED)
    except (ClientFailure, AliquotError) as error:
        fail(str(error), code=REFUSED)
    if as_json:
        print_json({"session": session.id, "address": address})
        return
    print(address, flush=True)
    if not no_browser and has_browser() and not webbrowser.open(address):
        fail("no browser could be started; open the address yourself", code=REFUSED)
