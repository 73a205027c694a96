"""`aliquot what-if`: what a session, a drained agent, another policy or more agents would mean for waiting sessions."""

from typing import Annotated

from typer import Option

from aliquot.cli.cluster.effects import show_what_if
from aliquot.cli.cluster.policy_changes import policy_of
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, usage
from aliquot.cli.session import options as o
from aliquot.cli.session.options import seconds_of, slots_of


def what_if(
    gpus: Annotated[
        str | None, Option("--gpus", metavar="N", help="Add a session with this many GPUs; short for -r gpu=N.")
    ] = None,
    resources: Annotated[
        list[str] | None,
        Option("-r", "--resources", metavar="SLOT=AMOUNT", help="Add a session with these resources, like gpu=2."),
    ] = None,
    cluster_size: Annotated[
        int | None, Option(min=1, help="Number of kernels of that session.", show_default="1")
    ] = None,
    time_limit: o.TimeLimit = None,
    project: o.Project = None,
    pool: o.Pool = None,
    drain: Annotated[str | None, Option(metavar="AGENT", help="Drain this agent.")] = None,
    evict: Annotated[bool, Option("--evict", help="Also preempt the sessions on that agent.")] = False,
    policy: Annotated[
        list[str] | None, Option(metavar="NAME=VALUE", help="Change the policy, as in `policy set`.")
    ] = None,
    like: Annotated[str | None, Option(metavar="AGENT", help="Add agents like this one.")] = None,
    count: Annotated[int | None, Option(min=1, max=64, help="How many agents to add.", show_default="1")] = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what a change would mean for all waiting sessions, without changing anything.

    Several changes can be combined: a session, a drained agent, another policy, more agents.
    """
    from aliquot.client.generated.explanations import WhatIfInput
    from aliquot.client.generated.inputs import CommandInput, CreateSessionInput

    if not (gpus or resources or drain or policy or like):
        usage("ask about something: --gpus 2, --drain AGENT, --policy order=sjf, or --like AGENT --count 2")
    if evict and not drain:
        usage("--evict: name the agent with --drain")
    if count is not None and not like:
        usage("--count: name the agent with --like")
    session = None
    if gpus or resources:
        session = CreateSessionInput(
            command=CommandInput(argv=["true"]),
            slots=slots_of(resources, gpus=gpus),
            cluster_size=cluster_size or 1,
            time_limit=seconds_of(time_limit, option="--time-limit"),
            project=project,
            pool=pool,
        )
    elif cluster_size or time_limit or project or pool:
        usage("--cluster-size, --time-limit, --project and --pool are of one more session; add --gpus N")
    asked = WhatIfInput(
        session=session,
        drain=drain,
        evict=evict,
        policy=policy_of(policy) if policy else None,
        like=like,
        count=count or 1,
    )
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        show_what_if(client, asked, as_json=as_json)
