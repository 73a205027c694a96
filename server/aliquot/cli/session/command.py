"""The group `aliquot session`."""

from typing import Final

import typer

from aliquot.cli.session.changes import cancel, hold, release, retry
from aliquot.cli.session.create import HELP, create
from aliquot.cli.session.create_command import CreateCommand
from aliquot.cli.session.listing import list_sessions
from aliquot.cli.session.logs import logs
from aliquot.cli.session.showing import show, why
from aliquot.cli.session.wait import wait

session: Final = typer.Typer(no_args_is_help=True, help="Submit sessions, look at them, follow and change them.")

# What comes after a script is the script's, even where it looks like an option.
session.command("create", cls=CreateCommand, help=HELP, context_settings={"allow_interspersed_args": False})(create)
session.command("list")(list_sessions)
session.command("show")(show)
session.command("why")(why)
session.command("logs")(logs)
session.command("wait")(wait)
session.command("cancel")(cancel)
session.command("hold")(hold)
session.command("release")(release)
session.command("retry")(retry)
