"""The expected final waste of a device that has something left, while shares keep arriving."""

from typing import Final

from aliquot.core.placement.requests import WHOLE_MILLI, Mix


def waste_table(mix: Mix, *, ending: float, size_max: int = WHOLE_MILLI) -> list[float]:
    """The waste in milli, for each amount of milli left, from 0 to `size_max`.

    With r left the next request is one of the shares that fit, a whole one if r is a whole device, or none ever comes
    (`ending`): then r is wasted. B[r] = (sum of p_m * B[r - m] + ending * r) / (sum of p_m [+ p_whole] + ending).
    A device of several units counts as that many devices.

    Args:
        ending: weight of the end beside the frequencies; > 0.
    """
    shares: Final = mix.share_frequencies
    table = [0.0]
    for left in range(1, min(size_max, WHOLE_MILLI) + 1):
        waste = ending * left
        weight = ending + (mix.whole_frequency if left == WHOLE_MILLI else 0.0)
        for milli, frequency in shares:
            if milli > left:
                break
            waste += frequency * table[left - milli]
            weight += frequency
        table.append(waste / weight)
    for left in range(WHOLE_MILLI + 1, size_max + 1):
        table.append(table[left - WHOLE_MILLI] + table[WHOLE_MILLI])
    return table
