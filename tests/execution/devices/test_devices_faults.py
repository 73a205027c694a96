"""Hardware faults, each injected into a stand-in for NVIDIA's library: its meaning, quarantine and return."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from aliquot.execution.agent.device_health import (
    RETURN_FILE,
    ExporterFaults,
    HealthWatch,
    NvmlFaults,
    Quarantine,
    with_faults,
)
from aliquot.execution.devices.device_set import DeviceSet
from aliquot.execution.devices.fault_watch import FaultWatch
from aliquot.execution.devices.faults import KINDS, Effect, ExporterReadings, Fault
from aliquot.execution.devices.nvml import NvmlPlugin
from aliquot.execution.devices.nvml_driver import NvmlDriver
from aliquot.execution.settings import HealthRules
from aliquot_schema.ids import DeviceId
from aliquot_schema.resources.devices import DeviceHealth
from devices_driver import FakeDriver

ONE = DeviceId("GPU-00000000-aaaa-0000-0000-000000000000")
TWO = DeviceId("GPU-11111111-bbbb-0000-0000-000000000000")
LOST = Fault(device_id=ONE, kind="xid 79")
WAIT_S = 60.0

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("number", [13, 31, 43, 45, 94])
def test_application_faults_never_quarantine_a_device(number: int) -> None:
    assert Fault(device_id=ONE, kind=f"xid {number}").effect is Effect.APPLICATION


def test_every_fault_kind_has_a_text_and_unknown_xid_numbers_are_only_reported() -> None:
    assert LOST.words == "XID 79 (the GPU has fallen off the bus)"
    assert Fault(device_id=ONE, kind="xid 9999").effect is Effect.REPORT
    assert Fault(device_id=ONE, kind="xid 9999").words == "XID 9999 (unknown)"
    fatal = {kind for kind, (effect, _) in KINDS.items() if effect is Effect.QUARANTINE}
    assert {"xid 48", "xid 74", "xid 79", "xid 95", "xid 119", "ecc", "row remap", "lost"} <= fatal


@pytest.mark.parametrize(
    ("switch", "value", "kind"),
    [
        ("ecc", 2, "ecc"),
        ("rows_failed", 1, "row remap"),
        ("lost", 0, "lost"),
        ("throttle", 0x40, "thermal"),
        ("throttle", 0x80, "power"),
        ("replays", 3, "nvlink"),
    ],
)
def test_each_counter_raises_its_fault_once(driver: FakeDriver, switch: str, value: int, kind: str) -> None:
    nvml = NvmlDriver()
    watch = FaultWatch(nvml)
    assert list(watch.counted()) == []
    driver.set(switch, value)
    assert list(watch.counted()) == [(ONE, kind)]
    assert list(watch.counted()) == []
    nvml.close()


@pytest.fixture
def injected(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files `events` and `hang`, read by processes that load the stand-in."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))
    monkeypatch.setenv("FAKE_NVML_EVENTS", str(tmp_path / "events"))
    monkeypatch.setenv("FAKE_NVML_HANG", str(tmp_path / "hang"))
    return tmp_path


async def test_a_hanging_driver_ends_the_fault_events_without_blocking_the_agent(injected: Path) -> None:
    (injected / "events").write_text("0 79\n1 31\n")
    async with asyncio.timeout(WAIT_S), aclosing(NvmlFaults(silent_s=5.0).faults()) as faults:
        assert [await anext(faults), await anext(faults)] == [LOST, Fault(device_id=TWO, kind="xid 31")]
        (injected / "hang").touch()
        with pytest.raises(StopAsyncIteration):
            await anext(faults)


def test_devices_are_unhealthy_while_a_driver_call_hangs_and_recover(
    driver: FakeDriver, injected: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = DeviceSet([NvmlPlugin()], driver_timeout_s=0.2)
    assert [device.health for device in devices.discover()] == [DeviceHealth.HEALTHY] * 2
    (injected / "hang").touch()
    assert devices.readings([]) == ()
    assert "hangs" in devices.failures["cuda"]
    assert [device.health for device in devices.discover()] == [DeviceHealth.UNHEALTHY] * 2
    (injected / "hang").unlink()
    while devices.discover()[0].health is not DeviceHealth.HEALTHY:
        assert "an earlier call" in devices.failures["cuda"]
    assert len(devices.readings([])) == 2
    devices.close()


METRICS = """# TYPE DCGM_FI_DEV_XID_ERRORS gauge
DCGM_FI_DEV_XID_ERRORS{{gpu="0",UUID="{one}",device="nvidia0"}} {xid}
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{gpu="0",UUID="{one}"}} {ecc}
DCGM_FI_DEV_POWER_VIOLATION{{gpu="1",UUID="{two}"}} {power}
"""


def test_an_exporter_reports_new_faults_and_not_old_ones() -> None:
    readings = ExporterReadings()

    def read(**values: int) -> list[Fault]:
        return readings.read(METRICS.format(one=ONE, two=TWO, **values))

    assert read(xid=74, ecc=3, power=0) == []
    assert read(xid=74, ecc=3, power=0) == []
    assert read(xid=79, ecc=3, power=0) == [LOST]
    assert read(xid=79, ecc=4, power=9) == [Fault(device_id=ONE, kind="ecc"), Fault(device_id=TWO, kind="power")]


async def test_an_exporter_is_asked_over_http_until_it_fails() -> None:
    texts = [METRICS.format(one=ONE, two=TWO, xid=xid, ecc=0, power=0).encode() for xid in (0, 79)]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if texts:
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + texts.pop(0))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
    async with server, asyncio.timeout(WAIT_S):
        assert [fault async for fault in ExporterFaults(url).faults()] == [LOST]


def test_a_quarantine_survives_a_restart_and_three_returns_in_a_week_need_a_person(tmp_path: Path) -> None:
    now = [1000.0]
    kept = Quarantine(tmp_path, now_s=lambda: now[0])
    for _ in range(3):
        assert kept.add(LOST)
        assert not kept.add(LOST)
        assert kept.checkable() == [ONE]
        assert kept.give_back(ONE)
        now[0] += 3600
    assert kept.add(LOST)
    again = Quarantine(tmp_path, now_s=lambda: now[0])
    again.open()
    assert again.checkable() == []
    assert again.faults == {ONE: f"{LOST.words}; it returned 3 times in a week and needs a person"}
    assert again.give_back(ONE, by_person=True)
    assert again.faults == {}
    again.add(LOST)
    assert again.checkable() == [ONE]
    again.give_back(ONE)
    now[0] += 7 * 86_400
    again.add(LOST)
    assert again.checkable() == [ONE]


def test_a_fault_of_a_gpu_makes_its_slices_unhealthy_and_is_reported(driver: FakeDriver) -> None:
    driver.set("mig", 2)
    plugin = NvmlPlugin()
    devices, told = with_faults(plugin.discover(), {ONE: LOST.words})
    ill = [device for device in devices if device.health is DeviceHealth.UNHEALTHY]
    assert [device.parent for device in ill] == [ONE] * len(ill)
    assert ill
    assert {told[f"fault.{device.id}"] for device in ill} == {LOST.words}
    plugin.close()


class Given:
    """A source of the given faults, then none."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = list(faults)

    async def faults(self) -> AsyncGenerator[Fault, None]:
        while self._faults:
            yield self._faults.pop(0)
        await asyncio.Event().wait()


async def test_a_quarantined_device_returns_after_a_passed_check_or_by_an_operator(tmp_path: Path) -> None:
    told: asyncio.Queue[dict[DeviceId, str]] = asyncio.Queue()
    held = {ONE}
    passes = tmp_path / "passes"
    rules = HealthRules(checks=(("sh", "-c", f'test -e {passes} && test "$0" = {ONE}'),), check_interval_s=0.05)
    program = Fault(device_id=TWO, kind="xid 31")
    watch = HealthWatch(rules, folder=tmp_path, held=lambda: held, source=Given([program, LOST]))
    await asyncio.to_thread(watch.open)

    async def tell() -> None:
        told.put_nowait(dict(watch.faults))

    following = asyncio.create_task(watch.follow(tell=tell))
    assert await told.get() == {ONE: LOST.words}
    await asyncio.to_thread(passes.touch)
    held.clear()
    assert await told.get() == {}
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following

    never = HealthRules(checks=(("/nowhere/check",),), check_interval_s=0.05)
    watch = HealthWatch(never, folder=tmp_path, held=lambda: held, source=Given([LOST]))
    following = asyncio.create_task(watch.follow(tell=tell))
    assert await told.get() == {ONE: LOST.words}
    await asyncio.to_thread((tmp_path / RETURN_FILE).write_text, f"{ONE}\n")
    assert await told.get() == {}
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
    assert not await asyncio.to_thread((tmp_path / RETURN_FILE).exists)
