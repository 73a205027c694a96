"""The last lines of output: always whole, however long."""

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.cli.session.logs import last_lines


class Printed:
    """Returns output as a client does, in the smallest pieces."""

    def __init__(self, text: str) -> None:
        self.data = text.encode()

    def output_so_far(self, _id: str, *, offsets: Mapping[int, int], attempt: int) -> Iterator[SimpleNamespace]:
        (begin,) = offsets.values()
        offset = max(0, len(self.data) + begin)
        for first in range(offset, len(self.data), 1000):
            yield SimpleNamespace(offset=first, text=self.data[first : first + 1000].decode())
        if offset == len(self.data):
            yield SimpleNamespace(offset=offset, text="")


def tail(text: str, most: int) -> str:
    return last_lines(cast("Any", Printed(text)), "ses_1", ranks=[0], attempt=1, most=most)[0]


@given(st.lists(st.integers(0, 3000).map("x".__mul__), max_size=8), st.integers(1, 10), st.booleans())
def test_the_log_tail_contains_whole_lines(lines: list[str], most: int, ends: bool) -> None:
    text = "\n".join(lines) + ("\n" if ends and lines else "")
    whole = text.splitlines(keepends=True)
    assert tail(text, most) == "".join(whole[-most:])


@pytest.mark.parametrize("length", [2_000, 600_000])
def test_a_long_line_is_not_cut(length: int) -> None:
    assert tail("a\n" + "b" * length + "\n", 1) == "b" * length + "\n"
