"""Views of right-size advice: what the next session of a command needs, from what its last ones used."""

from msgspec import Struct

from aliquot_schema.enums import DescribedStr


class RightSizeKind(DescribedStr):
    """Part of a request that advice is about."""

    GPUS = "gpus", "Number of GPUs of all kernels together."
    SHARE = "share", "Share of a single GPU."
    GPU_MEMORY = "gpu_memory", "Memory of each GPU."
    MEMORY = "memory", "Host memory of each kernel."
    TIME_LIMIT = "time_limit", "The time limit."


class RightSizeFigure(Struct, frozen=True, kw_only=True):
    """Advice on one part of a request."""

    kind: RightSizeKind
    advised: str
    """As it is written in a request: `2`, `0.4`, `24 GiB`, `2 h 15 min`."""
    largest: str
    """Largest value of the past runs."""
    runs: int
    """Runs that it is made from, the newest."""
    enough: int
    """Later runs for which the advice made from the runs before them was enough."""
    tested: int
    """Later runs that were tested."""
    message: str
    """One sentence."""


class RightSizeView(Struct, frozen=True, kw_only=True):
    """Advice for the next session of a command."""

    command: str
    """Program and size, like `train.py on 4 GPUs`."""
    runs: int
    """Past runs of this command that were read."""
    figures: tuple[RightSizeFigure, ...]
    """What the request could ask for instead; empty = what it asks for matches, or too little is known."""
    message: str
    """One sentence."""
