"""`aliquot quota`: limits of users, of projects, and of all together."""

from typing import Annotated, Final

import typer
from typer import Argument, Option

from aliquot.cli.cluster.quota_terms import QuotaTerms, scope_of, subject, terms
from aliquot.cli.connection.asking import connected
from aliquot.cli.connection.options import AsJson, AtServer, InCluster, TokenFile
from aliquot.cli.connection.printing import cells, console, print_json, table

quota: Final = typer.Typer(no_args_is_help=True, help="Look at quotas, set and remove them.")

Subject = Annotated[str, Argument(metavar="SUBJECT", help="user:NAME, project:NAME or cluster.")]
MaxSlots = Annotated[
    list[str] | None, Option("--max", metavar="SLOT=AMOUNT", help="Held at one time at most; none lifts it.")
]
OwnSlots = Annotated[
    list[str] | None, Option("--own", metavar="SLOT=AMOUNT", help="Its own: lent, and called back; none lifts it.")
]
Number = Annotated[str | None, Option(metavar="NUMBER", help="A whole number; none lifts it.")]


@quota.command("list")
def list_quotas(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """List the quotas there are."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.quotas()
    if as_json:
        print_json(found)
    elif not found:
        print("there are no quotas; `aliquot quota set user:NAME --max cuda.device=2` makes one")
    else:
        rows = table("for", "limits")
        for one in found:
            rows.add_row(*cells(subject(one), terms(one)))
        console().print(rows)


@quota.command("set")
def set_quota(
    for_whom: Subject,
    max_slots: MaxSlots = None,
    own_slots: OwnSlots = None,
    max_queued: Number = None,
    gpu_hours: Number = None,
    weight: Number = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Set limits; those that are not named stay as they are. A change made meanwhile is not overwritten."""
    scope, name = scope_of(for_whom)
    asked = QuotaTerms.read(
        max_slots=max_slots, own_slots=own_slots, max_queued=max_queued, gpu_hours=gpu_hours, weight=weight
    )
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        there = next((one for one in client.quotas() if (one.scope, one.name) == (scope, name)), None)
        done = client.set_quota(asked.over(there, scope=scope, name=name))
    if as_json:
        print_json(done.quota)
    else:
        print(f"{subject(done.quota)}  {terms(done.quota)}")


@quota.command("remove")
def remove(
    for_whom: Subject,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Remove all limits of one subject."""
    from aliquot.client.generated.administration_inputs import RemoveQuotaInput

    scope, name = scope_of(for_whom)
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.remove_quota(RemoveQuotaInput(scope=scope, name=name))
    if as_json:
        print_json(done.quota)
    else:
        print(f"{subject(done.quota)} has no quota any more")
