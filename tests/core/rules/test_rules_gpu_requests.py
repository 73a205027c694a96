"""Short names of accelerators, and the CPUs and memory that come with each GPU."""

import pytest

from aliquot.core.validation.session import (
    GIB,
    MIB,
    PerGpu,
    unknown_slot,
    with_full_names,
    with_host_amounts,
)
from aliquot_schema.errors import UnknownSlot

CUDA = ("cpu", "cuda.device", "cuda.shares", "mem")
TWO_KINDS = (*CUDA, "rocm.device", "rocm.shares")


@pytest.mark.parametrize(
    ("given", "known", "expected"),
    [
        (("gpu", "2"), CUDA, "cuda.device"),
        (("gpu", "2.0"), CUDA, "cuda.device"),
        (("gpu", "0.5"), CUDA, "cuda.shares"),
        (("gpu", "unlimited"), CUDA, "cuda.device"),
        (("gpu", "many"), CUDA, "cuda.device"),
        (("cuda", "1"), CUDA, "cuda.device"),
        (("rocm", "1.5"), TWO_KINDS, "rocm.shares"),
        (("gpu", "1"), ("rocm.device",), "rocm.device"),
        (("gpu", "0.5"), ("rocm.device",), "rocm.device"),
        (("gpu", "1"), ("rocm.shares",), "rocm.shares"),
        (("gpu", "1"), (*CUDA, "gpu"), "gpu"),
        (("cpu", "1"), CUDA, "cpu"),
        (("tpu", "1"), CUDA, "tpu"),
        (("cuda.shares", "1"), CUDA, "cuda.shares"),
    ],
)
def test_a_short_name_stands_for_devices_or_shares(
    given: tuple[str, str], known: tuple[str, ...], expected: str
) -> None:
    assert with_full_names([given], known=known, field="slots") == ((expected, given[1]),)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (TWO_KINDS, "slots: gpu: this cluster has 2 kinds of accelerators; write cuda.device or rocm.device"),
        (
            ("cpu",),
            "slots: gpu: no accelerator has been registered yet; write its slot, like cuda.device or cuda.shares",
        ),
    ],
)
def test_the_slot_gpu_is_refused_unless_one_kind_of_accelerator_is_known(known: tuple[str, ...], words: str) -> None:
    with pytest.raises(UnknownSlot) as caught:
        with_full_names([("gpu", "1")], known=known, field="slots")
    assert caught.value.message == words


@pytest.mark.parametrize(
    ("slot", "meant"),
    [("gpus", "gpu"), ("cuda.devices", "cuda.device"), ("memory", "mem"), ("cpus", "cpu"), ("fpga", None)],
)
def test_an_unknown_slot_is_refused_with_a_suggestion(slot: str, meant: str | None) -> None:
    words = unknown_slot(slot, known=CUDA, field="slots").message
    start = f"slots: no agent has slot {slot}; known slots: cpu, cuda.device, cuda.shares, mem."
    assert words == (start if meant is None else f"{start} Did you mean {meant}?")


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([("cuda.device", "2")], [("cpu", "16"), ("mem", "128g")]),
        ([("cuda.shares", "0.2")], [("cpu", "1"), ("mem", "13107m")]),
        ([("cuda.shares", "0.1")], [("mem", "6553m")]),
        ([("cuda.device", "1"), ("cpu", "3")], [("mem", "64g")]),
        ([("cuda.device", "1"), ("cpu", "0"), ("mem", "0")], []),
        ([("cpu", "4")], []),
    ],
)
def test_cpus_and_memory_come_with_each_gpu(given: list[tuple[str, str]], added: list[tuple[str, str]]) -> None:
    assert with_host_amounts(given, PerGpu(cpus=8, mem_bytes=64 * GIB)) == (*given, *added)


def test_amounts_below_one_cpu_and_one_mebibyte_are_not_added() -> None:
    given = [("cuda.shares", "0.5")]
    assert with_host_amounts(given, PerGpu(cpus=1, mem_bytes=MIB)) == tuple(given)
