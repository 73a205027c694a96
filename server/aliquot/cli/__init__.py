"""The command line: one file, or package, per group of commands."""

from typing import Annotated

import typer

from aliquot.cli.agent import agent
from aliquot.cli.audit import audit
from aliquot.cli.cluster import policy_document
from aliquot.cli.cluster.agents import agents
from aliquot.cli.cluster.gpus import gpus
from aliquot.cli.cluster.pools import pools
from aliquot.cli.cluster.projects import projects
from aliquot.cli.cluster.queue import queue
from aliquot.cli.cluster.quota import quota
from aliquot.cli.cluster.usage import usage
from aliquot.cli.connection.clusters import clusters
from aliquot.cli.db import db
from aliquot.cli.doctor import doctor
from aliquot.cli.health import health
from aliquot.cli.key import key
from aliquot.cli.main_job.command import once
from aliquot.cli.node import node
from aliquot.cli.notices import notices
from aliquot.cli.policy import policy
from aliquot.cli.replay import replay
from aliquot.cli.secret import secret
from aliquot.cli.selftest.command import selftest
from aliquot.cli.serve import serve
from aliquot.cli.session.command import session
from aliquot.cli.simulate import simulate
from aliquot.cli.state_export import state
from aliquot.cli.user import user

main = typer.Typer(no_args_is_help=True, pretty_exceptions_show_locals=False)


def _say_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(f"aliquot {version('aliquot')}")
        raise typer.Exit


@main.callback()
def describe(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Share the GPUs of a cluster among people."""


main.add_typer(session, name="session")
main.command("queue")(queue)
main.command("gpus")(gpus)
main.add_typer(agents, name="agents")
main.command("pools")(pools)
main.command("projects")(projects)
main.command("usage")(usage)
main.add_typer(quota, name="quota")
main.add_typer(notices, name="notices")
main.add_typer(clusters, name="clusters")
policy.command("show")(policy_document.show)
policy.command("set")(policy_document.change)
main.add_typer(agent, name="agent", help="Run an agent of another node, check a node, and make keys.")
main.command("once")(once)
main.add_typer(node, name="node", help="Be a node of a Ray cluster.")
main.add_typer(policy, name="policy")
main.command("selftest")(selftest)
main.command("serve")(serve)
main.command("simulate")(simulate)
main.add_typer(audit, name="audit")
main.command("replay")(replay)
main.add_typer(db, name="db")
main.command("doctor")(doctor)
main.command("health")(health)
main.add_typer(state, name="state")
main.add_typer(user, name="user")
main.add_typer(key, name="key")
main.add_typer(secret, name="secret")
