"""What a Ray node says about itself to the gateway, as labels of Ray."""

from collections.abc import Mapping
from typing import Final

AGENT_LABEL: Final = "aliquot.io/agent"
NO_AGENT: Final = "no"


def wants_agent(labels: Mapping[str, str]) -> bool:
    """Whether an actor with agents is to be made there."""
    return labels.get(AGENT_LABEL) != NO_AGENT
