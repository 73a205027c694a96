"""`aliquot quota`: limits of users, projects and the whole cluster, written as the options that set them."""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import Struct
from typer import Argument, Option

from aliquot.cli.connection.output import amount_text, cells, print_json, printable, show_table, table
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, usage
from aliquot.cli.session.completion import quota_subjects
from aliquot.cli.session.options import seconds_of

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.enums import QuotaScope
    from aliquot.client.generated.inputs import SlotAmountInput
    from aliquot.client.generated.policy import Quota
    from aliquot.client.generated.policy_inputs import SetQuotaInput
    from aliquot.client.generated.scalars import SlotAmount


NO_LIMIT: Final = "none"


class QuotaTerms(Struct, frozen=True, kw_only=True):
    """Changes to a quota. A number that is None, or a slot that is not named, stays as it is."""

    max_slots: Mapping[str, str]
    own_slots: Mapping[str, str]
    max_queued: str | None
    gpu_hours: str | None
    weight: str | None
    budget: str | None = None

    @classmethod
    def read(
        cls,
        *,
        max_slots: Sequence[str] | None,
        own_slots: Sequence[str] | None,
        max_queued: str | None,
        gpu_hours: str | None,
        weight: str | None,
        budget: str | None = None,
    ) -> "QuotaTerms":
        """Read the options.

        Raises:
            typer.Exit: one is wrong, or there is none.
        """
        if not any((max_slots, own_slots, max_queued, gpu_hours, weight, budget)):
            usage("give a limit: --max SLOT=AMOUNT, --own SLOT=AMOUNT, --max-queued, --gpu-hours, --weight or --budget")
        for option, text in (("--max-queued", max_queued), ("--gpu-hours", gpu_hours), ("--weight", weight)):
            if text not in (None, NO_LIMIT) and not text.isdecimal():
                usage(f"{option} {text}: give a whole number, or {NO_LIMIT}")
        if budget not in (None, NO_LIMIT) and not budget.replace(".", "", 1).isdecimal():
            usage(f"--budget {budget}: give an amount like 250 or 99.50, or {NO_LIMIT}")
        return cls(
            max_slots=_slots(max_slots, option="--max"),
            own_slots=_slots(own_slots, option="--own"),
            max_queued=max_queued,
            gpu_hours=gpu_hours,
            weight=weight,
            budget=budget,
        )

    def over(self, present: "Quota | None", *, scope: "QuotaScope", name: str) -> "SetQuotaInput":
        """The complete quota, after these changes to the present one."""
        from aliquot.client.generated.policy_inputs import SetQuotaInput

        return SetQuotaInput(
            scope=scope,
            name=name,
            max_slots=_changed(present.max_slots if present else (), self.max_slots),
            own_slots=_changed(present.own_slots if present else (), self.own_slots),
            max_queued=_number(self.max_queued, present.max_queued if present else None),
            gpu_hours_per_month=_number(self.gpu_hours, present.gpu_hours_per_month if present else None),
            weight=_number(self.weight, present.weight if present else None),
            budget=_amount(self.budget, present.budget if present else None),
            expected_version=present.version if present else 0,
        )


def scope_of(text: str) -> "tuple[QuotaScope, str]":
    """Read `user:NAME`, `project:NAME`, `key:ID` or `cluster`.

    Raises:
        typer.Exit: it is none of these.
    """
    from aliquot.client.generated.enums import QuotaScope

    scope, _, name = text.partition(":")
    if scope not in list(QuotaScope) or bool(name) == (scope == QuotaScope.CLUSTER):
        usage(f"{text}: write user:NAME, project:NAME, key:ID or cluster")
    return QuotaScope(scope), name


def known_subjects(client: "BlockingClient", scope: "QuotaScope") -> Collection[str]:
    """The names of the users or the projects that exist; empty for other scopes."""
    from aliquot_schema.sessions import DEFAULT_PROJECT

    if scope == "user":
        return {one.name for one in client.users()}
    return {one.name for one in client.projects()} | {DEFAULT_PROJECT} if scope == "project" else ()


def note_new(scope: "QuotaScope", names: Iterable[str], *, known: Collection[str]) -> None:
    """Print on stderr which names were new, as a misspelt name is accepted too."""
    from difflib import get_close_matches

    for name in names:
        if scope not in ("user", "project") or name in known:
            continue
        close = get_close_matches(name, known, n=1)
        similar = f"; there is {printable(close[0])}" if close else ""
        what = "there is no user {name} yet" if scope == "user" else "project {name} is new"
        print(f"aliquot: {what.format(name=printable(name))}{similar}", file=sys.stderr)


def subject(quota: "Quota") -> str:
    """The subject of a quota, as `scope_of` reads it."""
    return f"{quota.scope}:{printable(quota.name)}" if quota.name else str(quota.scope)


def terms(quota: "Quota") -> str:
    """The limits of a quota, written as options of `aliquot quota set`."""
    parts = [f"--max {one.slot}={one.amount}" for one in quota.max_slots]
    parts += [f"--own {one.slot}={one.amount}" for one in quota.own_slots]
    numbers = {"max-queued": quota.max_queued, "gpu-hours": quota.gpu_hours_per_month, "weight": quota.weight}
    parts += [f"--{name} {number}" for name, number in numbers.items() if number is not None]
    parts += [] if quota.budget is None else [f"--budget {quota.budget:g}"]
    return " ".join(parts)


def limits_text(quota: "Quota") -> str:
    """The limits of a quota in words: `at most 12 GPUs, 2 GPUs guaranteed, weight 3`."""
    parts = [f"at most {amount_text(one.slot, one.amount)}" for one in quota.max_slots]
    parts += [f"{amount_text(one.slot, one.amount)} guaranteed" for one in quota.own_slots]
    parts += [] if quota.max_queued is None else [f"at most {quota.max_queued} waiting"]
    parts += [] if quota.gpu_hours_per_month is None else [f"{quota.gpu_hours_per_month:g} GPU-hours a month"]
    parts += [] if quota.weight is None else [f"weight {quota.weight:g}"]
    return ", ".join(parts)


def _slots(texts: Sequence[str] | None, *, option: str) -> dict[str, str]:
    found = {}
    for text in texts or ():
        slot, given, amount = text.partition("=")
        if not (slot and given and amount):
            usage(f"{option} {text}: write it like gpu=2")
        found[slot] = amount
    return found


def _changed(present: "Sequence[SlotAmount]", changes: Mapping[str, str]) -> "list[SlotAmountInput] | None":
    from aliquot.client.generated.inputs import SlotAmountInput

    kept = {one.slot: one.amount for one in present if not any(_replaces(slot, one.slot) for slot in changes)}
    amounts = kept | dict(changes)
    return [SlotAmountInput(slot=slot, amount=amount) for slot, amount in amounts.items() if amount != NO_LIMIT] or None


def _replaces(short: str, slot: str) -> bool:
    """Whether a slot is one that the short name `gpu`, or a kind like `cuda`, stands for."""
    kind, _, unit = slot.partition(".")
    return unit in ("device", "shares") and short in ("gpu", kind)


def _number(change: str | None, present: int | None) -> int | None:
    if change is None:
        return present
    return None if change == NO_LIMIT else int(change)


def _amount(change: str | None, present: float | None) -> float | None:
    if change is None:
        return present
    return None if change == NO_LIMIT else float(change)


quota: Final = typer.Typer(no_args_is_help=True, help="Show, set and remove quotas.")

Subject = Annotated[
    str, Argument(metavar="SUBJECT", help="user:NAME, project:NAME, key:ID or cluster.", autocompletion=quota_subjects)
]
MaxSlots = Annotated[
    list[str] | None, Option("--max", metavar="SLOT=AMOUNT", help="Maximum held at one time; AMOUNT none lifts it.")
]
OwnSlots = Annotated[
    list[str] | None,
    Option("--own", metavar="SLOT=AMOUNT", help="Guaranteed: lent while unused, and reclaimed; none lifts it."),
]
Try = Annotated[
    str | None,
    Option("--try", metavar="DURATION", help="Change nothing; run the sessions of this past time with it, like 7d."),
]
Number = Annotated[str | None, Option(metavar="N", help="A whole number; none lifts it.")]
Budget = Annotated[
    str | None,
    Option(metavar="AMOUNT", help="Maximum price of a calendar month, by the policy's prices; none lifts it."),
]


@quota.command("list")
def list_quotas(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """List all quotas."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.quotas()
    if as_json:
        print_json(found)
    elif not found:
        print("there are no quotas; `aliquot quota set user:NAME --max cuda.device=2` makes one")
    else:
        rows = table("subject", "limits")
        for one in found:
            rows.add_row(*cells(subject(one), terms(one)))
        show_table(rows)


@quota.command("set")
def set_quota(
    subject_text: Subject,
    max_slots: MaxSlots = None,
    own_slots: OwnSlots = None,
    max_queued: Number = None,
    gpu_hours: Number = None,
    weight: Number = None,
    budget: Budget = None,
    try_on: Try = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Set limits; options that are left out change nothing. Refused if the quota was changed meanwhile."""
    scope, name = scope_of(subject_text)
    changes = QuotaTerms.read(
        max_slots=max_slots,
        own_slots=own_slots,
        max_queued=max_queued,
        gpu_hours=gpu_hours,
        weight=weight,
        budget=budget,
    )
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        known = known_subjects(client, scope)
        present = next((one for one in client.quotas() if (one.scope, one.name) == (scope, name)), None)
        wanted = changes.over(present, scope=scope, name=name)
        if try_on is not None:
            from aliquot.cli.cluster.backtest import tried
            from aliquot.client.generated.backtests import BacktestRunInput

            run = BacktestRunInput(label=f"with the quota of {subject_text}", quotas=[wanted])
            tried(client, run, since_s=seconds_of(try_on, option="--try") or 0.0, as_json=as_json)
            return
        done = client.set_quota(wanted)
    if as_json:
        print_json(done.quota)
    else:
        print(f"{subject(done.quota)}  {terms(done.quota)}")
        note_new(scope, [name], known=known)


@quota.command("remove")
def remove(
    subject_text: Subject,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Remove all limits of one subject."""
    from aliquot.client.generated.policy_inputs import RemoveQuotaInput

    scope, name = scope_of(subject_text)
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        done = client.remove_quota(RemoveQuotaInput(scope=scope, name=name))
    if as_json:
        print_json(done.quota)
    else:
        print(f"{subject(done.quota)} has no quota any more")
