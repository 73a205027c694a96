"""`aliquot policy show` and `set`: the scheduling policy of a cluster."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Argument, Option

from aliquot.cli.cluster.policy_changes import document_in, input_of, nested
from aliquot.cli.connection.output import print_json, printable
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, usage
from aliquot.cli.session.options import seconds_of
from aliquot.cli.session.show import preemption_note

if TYPE_CHECKING:
    from aliquot.client.generated.policy import Policy
    from aliquot.client.generated.policy_inputs import UpdatePolicyInput


Changes = Annotated[
    list[str] | None,
    Argument(metavar="NAME=VALUE...", help="Names as in `policy show`: weights.age=2, half_life=7d."),
]
File = Annotated[
    Path | None, Option("--file", help="A document as printed by `policy show --json`; - is standard input.")
]
Preview = Annotated[
    bool, Option("--preview", help="Change nothing; show which sessions would start now, later or sooner.")
]

Try = Annotated[
    str | None,
    Option("--try", metavar="DURATION", help="Change nothing; run the sessions of this past time with it, like 7d."),
]


NOT_SET: Final = "not set"
_OF_EACH_CHANGE: Final = frozenset({"version", "changed_at"})


def show(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Show the current policy."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        _print(client.policy(), as_json=as_json)


def change(
    changes: Changes = None,
    file: File = None,
    preview: Preview = False,
    try_on: Try = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Change the policy from the next scheduling pass on: all changes, or none if one is wrong. Prints what changed.

    A document is refused when the policy was changed after the document was printed.
    """
    if preview and try_on is not None:
        usage("give either --preview, which looks ahead, or --try, which runs past sessions again")
    _warn(nested(changes or ()))
    wanted = input_of(nested(changes or (), within=document_in(file)))
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        if preview:
            from aliquot.cli.cluster.effects import show_what_if
            from aliquot.client.generated.explanations import WhatIfInput

            show_what_if(client, WhatIfInput(policy=wanted), as_json=as_json)
            return
        if try_on is not None:
            from aliquot.cli.cluster.backtest import tried
            from aliquot.client.generated.backtests import BacktestRunInput

            run = BacktestRunInput(label="with the changes", policy=_any_version(wanted))
            tried(client, run, since_s=seconds_of(try_on, option="--try") or 0.0, as_json=as_json)
            return
        before = client.policy()
        after = client.update_policy(wanted).policy
    if as_json:
        print_json(after)
    else:
        print("\n".join(differences(before, after)) or "nothing changed: the policy was like this already")
    note = preemption_note(after)
    if note is not None and not as_json:
        print(f"aliquot: {note}", file=sys.stderr)


def _any_version(wanted: "UpdatePolicyInput") -> "UpdatePolicyInput":
    import msgspec

    return msgspec.structs.replace(wanted, expected_version=None)


def _warn(given: dict[str, Any]) -> None:
    """Warn of names that were given and have no effect."""
    weights = given.get("weights")
    if isinstance(weights, dict) and "age_unit" in weights:
        from aliquot_schema.policies import AGE_UNIT_DEPRECATION

        print(f"warning: weights.age_unit: {AGE_UNIT_DEPRECATION}", file=sys.stderr)


def differences(before: "Policy", after: "Policy") -> list[str]:
    """The fields of a policy that differ, like `weights.age: 1 -> 2`."""
    old, new = _named_leaves(before), _named_leaves(after)
    return [
        f"{path}: {printable(old.get(path, NOT_SET))} -> {printable(new.get(path, NOT_SET))}"
        for path in {**old, **new}
        if path not in _OF_EACH_CHANGE and old.get(path) != new.get(path)
    ]


def _print(policy: "Policy", *, as_json: bool) -> None:
    if as_json:
        print_json(policy)
        return
    for path, leaf in _named_leaves(policy).items():
        print(f"{path}={printable(leaf)}")


def _named_leaves(policy: "Policy") -> dict[str, str]:
    import msgspec

    fields = msgspec.to_builtins(policy)
    del fields["preemption"]["victims"]  # the deprecated name of `preempt`
    del fields["weights"]["age_unit"]  # without effect
    return {path: leaf for name, value in fields.items() for path, leaf in _leaves(name, value)}


def _leaves(path: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [leaf for name, inner in value.items() for leaf in _leaves(f"{path}.{name}", inner)]
    return [] if value is None else [(path, value if isinstance(value, str) else json.dumps(value))]
