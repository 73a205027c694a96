"""Names of kernels, and natural order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot_schema.ids import KernelId, SessionId, kernel_id, kernel_parts, natural_key

TEXT = st.text(alphabet="ab019./-", max_size=12)


@settings(deadline=None)
@given(st.text(min_size=1), st.integers(1, 10**6), st.integers(0, 4095))
def test_a_kernel_id_contains_session_attempt_and_rank(session: str, attempt: int, rank: int) -> None:
    kernel = kernel_id(SessionId(session), attempt=attempt, rank=rank)
    assert kernel_parts(kernel) == (session, attempt, rank)


@pytest.mark.parametrize("text", ["", "ses_1", "ses_1.1", "ses_1.1.", "ses_1.one.0", "ses_1.1.0.x"])
def test_invalid_kernel_ids_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        kernel_parts(KernelId(text))


@pytest.mark.parametrize(
    "names",
    [
        ["cuda0", "cuda2", "cuda10"],
        ["cuda0", "cuda0/0", "cuda0/2", "cuda0/10", "cuda1"],
        ["cpu9", "cuda0", "mem0"],
        ["", "0", "00", "01", "1", "10", "a", "a1"],
        ["n1-g2", "n1-g10", "n2-g1"],
        ["x" + "9" * 5000, "x1" + "0" * 5000],
    ],
)
def test_numbers_in_names_are_compared_as_numbers(names: list[str]) -> None:
    assert sorted(reversed(names), key=natural_key) == names


@settings(deadline=None)
@given(TEXT, TEXT)
def test_only_equal_names_have_equal_sort_keys(one: str, two: str) -> None:
    assert (natural_key(one) == natural_key(two)) == (one == two)


@settings(deadline=None)
@given(st.integers(0, 10**30), st.integers(0, 10**30))
def test_natural_order_compares_numbers_numerically(one: int, two: int) -> None:
    assert (natural_key(f"gpu{one}") < natural_key(f"gpu{two}")) == (one < two)
