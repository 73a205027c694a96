"""Room: what all broadcasts of a server together keep of what they sent has an end, however many they are."""

from dataclasses import dataclass
from typing import Final

CHARACTERS_MAX: Final = 64 * 1024 * 1024


@dataclass(slots=True)
class Room:
    """Below zero, whoever keeps something has to give it up: it can be executed again."""

    characters_left: int = CHARACTERS_MAX
