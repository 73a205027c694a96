"""Preferences: the order they are tried in, and that none gives less than a session needs."""

from typing import Any

import pytest
from msgspec.structs import replace

from aliquot.core.model.agent_index import AgentIndex
from aliquot.core.model.snapshot import ANYWHERE
from aliquot.core.scheduler.eligibility import preferred
from allocation_devices import cores, gpu, gpus
from core_cluster import decided, on, places, row

IB, ETH, EAST = ("net", "ib"), ("net", "eth"), ("hall", "east")
HELD = ("i", "yes")
OLD, NEW = gpus(1, model="A100"), gpus(1, model="H100")
ROSTER = AgentIndex([on("x", [gpu(0, model="H100"), gpu(1, model="A100"), *cores([0])]), on("y", gpus(1, model="A10"))])


@pytest.mark.parametrize(
    ("asks", "wishes"),
    [
        ({}, []),
        ({"labels": (IB,), "models": ("H*",)}, []),
        ({"preferred_labels": (IB,)}, [((IB,), ())]),
        ({"preferred_labels": (IB,), "labels": (IB,)}, []),
        ({"preferred_labels": (ETH,), "labels": (IB,)}, []),
        ({"preferred_labels": (IB,), "labels": (EAST,)}, [((EAST, IB), ())]),
        ({"preferred_models": ("A*",)}, [((), ("A*",))]),
        ({"preferred_models": ("A*",), "labels": (IB,)}, [((IB,), ("A*",))]),
        ({"preferred_labels": (IB,), "models": ("H*",)}, [((IB,), ("H*",))]),
        ({"preferred_labels": (IB,), "preferred_models": ("A*",)}, [((IB,), ("A*",)), ((IB,), ()), ((), ("A*",))]),
        ({"models": ("H*", "A1?"), "preferred_models": ("A*",)}, [((), ("A10",))]),
        ({"models": ("A*",), "preferred_models": ("*100",)}, [((), ("A100",))]),
        ({"models": ("*",), "preferred_models": ("*",)}, [((), ("A10", "A100", "H100"))]),
        ({"models": ("H*",), "preferred_models": ("A*",)}, []),
        ({"image": "i"}, [((HELD,), ())]),
        ({"image": "i", "labels": (IB,)}, [((HELD, IB), ())]),
        (
            {"image": "i", "preferred_labels": (IB,), "preferred_models": ("A*",)},
            [
                *[((HELD, IB), ("A*",)), ((IB,), ("A*",))],
                *[((HELD, IB), ()), ((IB,), ())],
                *[((HELD,), ("A*",)), ((), ("A*",))],
                ((HELD,), ()),
            ],
        ),
    ],
)
def test_combinations_of_preferences_are_tried_from_most_to_fewest(asks: dict[str, Any], wishes: list[Any]) -> None:
    where = replace(ANYWHERE, pool="p", **asks)
    found = list(preferred(where, agent_index=ROSTER))
    assert [(one.labels, one.models) for one in found] == wishes
    assert all(replace(one, labels=where.labels, models=where.models) == where for one in found)


@pytest.mark.parametrize("model", ["A100", "H100"])
def test_a_preferred_model_is_used_while_it_is_free(model: str) -> None:
    agents = [on("old", OLD), on("new", NEW)]
    likes = replace(ANYWHERE, preferred_models=(model,))
    plan = decided(agents, [row(str(number), at=number, where=likes) for number in range(2)])
    first, second = (places(plan)[name][0][0] for name in "01")
    assert (first, second) == (("old", "new") if model == "A100" else ("new", "old"))


@pytest.mark.parametrize("needs", ["A100", "H100"])
def test_a_preferred_model_never_overrides_a_required_model(needs: str) -> None:
    agents = [on("old", OLD), on("new", NEW)]
    where = replace(ANYWHERE, models=(needs,), preferred_models=("A*" if needs == "H100" else "H*",))
    assert places(decided(agents, [row("a", where=where)]))["a"][0][0] == ("old" if needs == "A100" else "new")


def test_a_gang_that_only_partly_fits_on_its_preferred_model_runs_elsewhere() -> None:
    agents = [on("old", OLD), on("new", gpus(2, model="H100"))]
    likes = replace(ANYWHERE, preferred_models=("A100",))
    plan = decided(agents, [row("gang", kernels=2, where=likes), row("one", at=1, where=likes)])
    assert [agent for agent, _ in places(plan)["gang"]] == ["new", "new"]
    assert places(plan)["one"][0][0] == "old"


@pytest.mark.parametrize("holder", ["old", "new"])
def test_an_agent_that_holds_the_image_is_preferred_but_not_waited_for(holder: str) -> None:
    agents = [replace(on(name), labels=dict([HELD]) if name == holder else {}) for name in ("old", "new")]
    with_image = replace(ANYWHERE, image="i")
    plan = decided(agents, [row(str(number), at=number, where=with_image, cuda_device="2") for number in range(2)])
    first, second = (places(plan)[name][0][0] for name in "01")
    assert (first, second) == (holder, "new" if holder == "old" else "old")
