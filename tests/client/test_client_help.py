"""`help()` for the calls that submit."""

import inspect
import pydoc

import pytest

from aliquot.client import BlockingClient, Client
from aliquot.client.generated.inputs import CreateSessionInput


@pytest.mark.parametrize("client", [BlockingClient, Client])
def test_each_option_of_submit_is_shown_with_its_type(client: type) -> None:
    shown = inspect.signature(client.submit).parameters  # type: ignore[attr-defined]
    assert set(inspect.signature(CreateSessionInput).parameters) <= set(shown)
    text = pydoc.render_doc(client.submit, renderer=pydoc.plaintext)  # type: ignore[attr-defined]
    assert "cluster_size: int = 1" in text
    assert "time_limit: float | None = None" in text
    assert "environment: collections.abc.Mapping[str, str] | None = None" in text
