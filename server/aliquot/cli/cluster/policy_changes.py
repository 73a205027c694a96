"""Reading changes of the policy: `NAME=VALUE` on the command line, and documents in files."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aliquot.cli.connection.server import usage

if TYPE_CHECKING:
    from aliquot.client.generated.policy_inputs import UpdatePolicyInput


def policy_of(changes: Sequence[str]) -> "UpdatePolicyInput":
    """Read changes like `order=fair_share` and `weights.age=2`. Exits when one is wrong."""
    return input_of(nested(changes))


def policy_in(file: Path) -> "UpdatePolicyInput":
    """Read a policy file, whatever version of the policy it was printed from. Exits when it is wrong."""
    document = document_in(file)
    document.pop("expected_version", None)
    return input_of(document)


def document_in(file: Path | None) -> dict[str, Any]:
    """Read a policy file as a document; none gives an empty one. Exits when it is no document."""
    from aliquot_schema.errors import InvalidRequest

    if file is None:
        return {}
    try:
        document = json.loads(sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8"))
    except OSError as error:
        hint = "; NAME=VALUE is for `policy set`, or for `backtest --set`" if "=" in str(file) else ""
        usage(f"{file}: {error.strerror or error}{hint}")
    except ValueError as error:
        usage(f"{file}: {error}")
    if not isinstance(document, dict):
        usage(f"{file} does not contain a policy")
    document.pop("changed_at", None)
    version = document.pop("version", None)
    try:
        document = _with_current_names(document)
    except InvalidRequest as error:
        usage(error.message)
    return document if version is None else {**document, "expected_version": version}


def nested(changes: Sequence[str], *, within: dict[str, Any] | None = None) -> dict[str, Any]:
    """A document, empty by default, with changes like `weights.age=2`. Exits when one is wrong."""
    found = {} if within is None else within
    given: list[str] = []
    for text in changes:
        path, has_value, value = text.partition("=")
        *outer, last = path.split(".")
        inner: Any = found
        for name in outer:
            if isinstance(inner, dict):
                inner[name] = inner.get(name) or {}
                inner = inner[name]
        if not has_value or not isinstance(inner, dict):
            usage(f"{text}: write it like order=fair_share or weights.age=2")
        if any(f"{path}.".startswith(f"{one}.") or f"{one}.".startswith(f"{path}.") for one in given):
            usage(f"{path} is given twice; together the changes are one policy")
        given.append(path)
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


def input_of(document: dict[str, Any]) -> "UpdatePolicyInput":
    """The change of the policy that a document asks for. Exits when it is empty or wrong."""
    import msgspec

    from aliquot.client.generated.policy_inputs import UpdatePolicyInput
    from aliquot_schema.errors import InvalidRequest
    from aliquot_schema.policies import with_seconds

    if not document:
        usage("give a change, like order=priority, or a --file")
    try:
        # Values on a command line are text: not strict, so that "2" is read as a number.
        return msgspec.convert(_with_current_names(with_seconds(document)), UpdatePolicyInput, strict=False)
    except InvalidRequest as error:
        usage(error.message)
    except msgspec.ValidationError as error:
        usage(f"{error}; `aliquot policy show` lists the valid names")


def _with_current_names(document: dict[str, Any]) -> dict[str, Any]:
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
