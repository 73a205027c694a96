"""Policy files: YAML with fields of the policy document, as `policy` of a scenario; the rest is the default."""

from pathlib import Path

from aliquot.core.policy import Policy
from aliquot_schema.errors import InvalidRequest


def read_policy(path: Path) -> Policy:
    """The policy that a server would go by with these fields.

    Raises:
        InvalidRequest: the file is wrong; the message names file, line and key.
    """
    from aliquot.core.scenarios.rules import policy
    from aliquot.core.scenarios.table import documents

    try:
        entries = documents(path.read_text(encoding="utf-8"), file=str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path} cannot be read: {error}", field="policy_file") from error
    if len(entries) != 1:
        raise InvalidRequest(f"{path} holds {len(entries)} documents, not one policy", field="policy_file")
    return policy(entries[0])
