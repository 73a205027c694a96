"""`aliquot policy show` and `set`: the scheduling policy of a cluster."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from aliquot.cli.connection.output import print_json, printable
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, usage
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


def show(
    cluster: InCluster = None, server: AtServer = None, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Show the current policy."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        _print(client.policy(), as_json=as_json)


def change(
    changes: Changes = None,
    file: File = None,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Change the policy from the next scheduling pass on: all changes, or none if one is wrong.

    A document is refused when the policy was changed after the document was printed.
    """
    wanted = _wanted(_document(file) | _nested(changes or ()))
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        changed = client.update_policy(wanted).policy
    _print(changed, as_json=as_json)
    note = preemption_note(changed)
    if note is not None and not as_json:
        print(f"aliquot: {note}", file=sys.stderr)


def _document(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        document = json.loads(sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        usage(f"{file}: {error}")
    if not isinstance(document, dict):
        usage(f"{file} does not contain a policy")
    document.pop("changed_at", None)
    version = document.pop("version", None)
    return document if version is None else {**document, "expected_version": version}


def _nested(changes: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in changes:
        path, given, value = text.partition("=")
        *outer, last = path.split(".")
        inner = found
        for name in outer:
            inner = inner.setdefault(name, {})
        if not given or not isinstance(inner, dict):
            usage(f"{text}: write it like order=fair_share or weights.age=2")
        inner[last] = _value(value)
    return found


def _value(text: str) -> Any:
    """Lists and tables are written as JSON; everything else is text."""
    if not text.startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        usage(f"{text}: {error}")


def _wanted(document: dict[str, Any]) -> "UpdatePolicyInput":
    import msgspec

    from aliquot.client.generated.policy_inputs import UpdatePolicyInput
    from aliquot_schema.errors import InvalidRequest
    from aliquot_schema.policies import with_seconds

    if not document:
        usage("give a change, like order=priority, or a --file")
    try:
        # Values on a command line are text: not strict, so that "2" is read as a number.
        return msgspec.convert(_in_new_words(with_seconds(document)), UpdatePolicyInput, strict=False)
    except InvalidRequest as error:
        usage(error.message)
    except msgspec.ValidationError as error:
        usage(f"{error}; `aliquot policy show` lists the valid names")


def _in_new_words(document: dict[str, Any]) -> dict[str, Any]:
    """The document without deprecated names and words, which are reported."""
    from aliquot_schema.policies import preempt_word

    rules = document.get("preemption")
    if not isinstance(rules, dict):
        return document
    given = [rules.get(name) for name in ("preempt", "victims")]
    if not all(word is None or isinstance(word, str) for word in given):
        return document
    word = preempt_word(*given)
    others = {name: value for name, value in rules.items() if name not in ("preempt", "victims")}
    return {**document, "preemption": others if word is None else {"preempt": word, **others}}


def _print(policy: "Policy", *, as_json: bool) -> None:
    import msgspec

    if as_json:
        print_json(policy)
        return
    fields = msgspec.to_builtins(policy)
    del fields["preemption"]["victims"]  # the deprecated name of `preempt`
    for name, value in fields.items():
        for path, leaf in _leaves(name, value):
            print(f"{path}={printable(leaf)}")


def _leaves(path: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [leaf for name, inner in value.items() for leaf in _leaves(f"{path}.{name}", inner)]
    return [] if value is None else [(path, value if isinstance(value, str) else json.dumps(value))]
