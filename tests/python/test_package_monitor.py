"""GpuMonitor and what the package that it replaces has, over the replay backend and the stand-in NVML."""
import dataclasses
import inspect
import math
import os
import time

import pytest
from package_script import REPLAY, ROOT, run_script

import profgpu
from profgpu import GpuBackendError, GpuMonitor, GpuSample, GpuSummary, MultiRunResult, RunStats

pytestmark = pytest.mark.usefixtures('package')

FIELDS = ('device name duration_s interval_s n_samples util_gpu_mean util_gpu_std util_gpu_min util_gpu_max util_gpu_p5 '
          'util_gpu_p50 util_gpu_p95 util_gpu_p99 idle_pct active_pct util_mem_mean mem_used_mean_mb mem_used_max_mb '
          'mem_total_mb mem_util_pct power_mean_w power_max_w energy_j temp_mean_c temp_max_c sm_clock_mean_mhz '
          'sm_clock_max_mhz busy_time_est_s sparkline notes').split()


def monitor(**more):
    return GpuMonitor(**{'backend': REPLAY, 'interval_s': 0.01, **more})


def test_names_and_parameters():
    assert [f.name for f in dataclasses.fields(GpuSummary)][:30] == FIELDS
    assert [f.name for f in dataclasses.fields(GpuSample)] == (
        't_s util_gpu util_mem mem_used_mb mem_total_mb power_w temp_c sm_clock_mhz mem_clock_mhz '
        'age_s'.split())
    given = inspect.signature(GpuMonitor).parameters
    assert {n: p.default for n, p in given.items()} == dict(
        device=0, interval_s=0.2, backend='auto', strict=False, sync_fn=None, warmup_s=0.0, store_samples=False,
        max_samples=50_000, reservoir_size=4096, trace_len=200)
    given = dict(inspect.signature(profgpu.gpu_profile).parameters)
    assert given.pop('function').default is None   # @gpu_profile, without parentheses
    assert {n: p.default for n, p in given.items()} == dict(
        device=0, interval_s=0.2, backend='auto', strict=False, sync_fn=None, warmup_s=0.0, store_samples=False,
        report=True, return_profile=False, repeats=1, warmup_runs=0)
    assert all(p.kind is p.KEYWORD_ONLY for p in given.values())
    given = inspect.signature(profgpu.profile_repeats).parameters
    from profgpu.monitor import gpu_profile
    assert gpu_profile is profgpu.gpu_profile
    assert [n for n in given][:3] == ['fn', 'repeats', 'warmup_runs'] and given['repeats'].default == 5


def test_format():
    values = dict.fromkeys(FIELDS, 12.5)
    values.update(device=0, name='GPU', n_samples=20, duration_s=2.003, interval_s=0.1, sparkline='▁█', notes='a note')
    assert GpuSummary(**values).format() == (
        '[GPU 0] GPU\n'
        '  duration: 2.003s | samples: 20 @ 0.100s\n'
        '  util.gpu: mean 12.5% | std 12.5% | min 12.5% | max 12.5%\n'
        '            p5 12.5% | p50 12.5% | p95 12.5% | p99 12.5%\n'
        '            idle (<5%) 12.5% | active (≥50%) 12.5%\n'
        '  util.mem: mean 12.5%\n'
        '  memory: mean 12 MB | max 12 MB / total 12 MB (12.5% peak)\n'
        '  power: mean 12.5 W | max 12.5 W | energy 12.5 J\n'
        '  clocks: SM mean 12 MHz (max 12 MHz)\n'
        '  temp: mean 12 °C | max 12 °C\n'
        '  busy time (est): 12.500s\n'
        '  util trace: ▁█\n'
        '  notes: a note')
    unknown = {name: math.nan for name in FIELDS}
    unknown.update(device=1, name='N/A', n_samples=0, duration_s=0.0, interval_s=0.2, sparkline='', notes='')
    assert GpuSummary(**unknown).format() == (
        '[GPU 1] N/A\n'
        '  duration: 0.000s | samples: 0 @ 0.200s\n'
        '  util.gpu: mean n/a | std n/a | min n/a | max n/a\n'
        '            p5 n/a | p50 n/a | p95 n/a | p99 n/a\n'
        '            idle (<5%) n/a | active (≥50%) n/a\n'
        '  util.mem: mean n/a\n'
        '  power: mean n/a | max n/a\n'
        '  temp: mean n/a | max n/a\n'
        '  busy time (est): n/a')


def test_it_watches():
    synced = []
    with monitor(store_samples=True, sync_fn=lambda: synced.append(1)) as mon:
        time.sleep(0.4)
        while mon.snapshot().n_samples <= 10:
            time.sleep(0.01)
        assert mon.summary is None
    s = mon.summary
    assert len(synced) == 2 and s.n_samples > 10 and 0.4 <= s.duration_s < 60
    assert s.util_gpu_min <= s.util_gpu_p5 <= s.util_gpu_p50 <= s.util_gpu_p95 <= s.util_gpu_p99 <= s.util_gpu_max <= 100
    assert s.energy_j == pytest.approx(s.power_mean_w * s.duration_s)
    assert s.busy_time_est_s == pytest.approx(s.duration_s * s.util_gpu_mean / 100)
    assert s.energy_method == 'counter' and s.energy_measured_j > 0 and 0 < s.busy_time_s <= s.duration_s
    assert s.mem_util_pct == pytest.approx(100 * s.mem_used_max_mb / s.mem_total_mb)
    assert len(s.sparkline) == 40 and mon.stop() is s
    samples = mon.samples
    assert len(samples) == s.n_samples and samples[0].t_s < samples[-1].t_s
    assert max(x.util_gpu for x in samples) <= s.util_gpu_max and samples[-1].mem_total_mb == s.mem_total_mb
    assert mon.table()['power_w'] is not None


def test_stopped_before_it_was_started():
    s = monitor().stop()
    assert s.duration_s == 0 and s.n_samples == 0


def test_it_can_be_entered_again_and_beside_others():
    with monitor() as outer:
        inner = monitor()
        for _ in range(2):
            with inner:
                time.sleep(0.1)
            assert 0.1 <= inner.summary.duration_s and inner.summary.n_samples > 2
            inner.stop()
        time.sleep(0.1)
    assert outer.summary.n_samples > inner.summary.n_samples


def test_warmup_is_left_out():
    with monitor() as whole, monitor(warmup_s=0.2) as mon:
        time.sleep(0.4)
    assert 'warmup ignored: first 0.20s' in mon.summary.notes and mon.summary.n_samples < whole.summary.n_samples
    assert mon.summary.energy_j == pytest.approx(mon.summary.power_mean_w * (mon.summary.duration_s - 0.2))


def test_ranges_are_phases():
    with monitor() as mon:
        for _ in range(2):
            with profgpu.step(), profgpu.phase('forward'):
                time.sleep(0.05)
        mon.mark('by hand')
        time.sleep(0.05)
    phases = mon.summary.phases
    assert phases['forward']['count'] == 2 and phases['forward']['duration_s'] >= 0.1
    assert phases['by hand']['duration_s'] >= 0.05 and mon.summary.metrics()['gpu/phase/forward/count'] == 2
    with profgpu.phase('nobody listens'):
        pass
    assert 'nobody listens' not in mon.snapshot().phases


def test_joules_per_step():
    with monitor() as mon:
        for _ in range(4):
            with profgpu.step():
                with profgpu.phase('forward'):
                    time.sleep(0.05)
                time.sleep(0.05)
            with profgpu.phase('validation'):   # no step's
                time.sleep(0.05)
    s = mon.summary
    assert s.steps == 4 and 0.1 <= s.step_s < s.duration_s / 4
    phases = s.phases
    inside = phases['forward']['energy_j'] + phases['step']['energy_j']
    assert s.energy_per_step_j == pytest.approx(inside / 4) and inside < s.energy_measured_j
    assert s.metrics()['gpu/energy_per_step_j'] == s.energy_per_step_j and 'steps: 4 | mean' in s.format()
    with monitor() as none:
        pass
    assert none.summary.steps == 0 and math.isnan(none.summary.energy_per_step_j)
    assert 'gpu/steps' not in none.summary.metrics()


@pytest.mark.parametrize('backend', ['none', 'replay:/nonexistent', 'amdgpu'])
def test_without_a_device(backend):
    with GpuMonitor(backend=backend) as mon:
        pass
    assert mon.summary.name == 'N/A' and mon.summary.notes and mon.summary.n_samples == 0
    assert math.isnan(mon.summary.energy_j) and mon.samples == []
    if backend != 'none':
        with pytest.raises(GpuBackendError):
            GpuMonitor(backend=backend, strict=True)


@pytest.mark.parametrize('wrong', [dict(interval_s=0), dict(interval_s=-1), dict(backend='cuda'),
                                   dict(store_samples=True, max_samples=99)])
def test_wrong_arguments(wrong):
    with pytest.raises(ValueError):
        GpuMonitor(**{'backend': 'none', **wrong})


def test_a_fork_leaves_the_monitor_to_its_parent():
    with monitor() as mon:
        time.sleep(0.05)
        child = os.fork()
        if child == 0:
            try:
                with profgpu.phase('child'):
                    mon.stop()
                del mon
            finally:
                os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        time.sleep(0.05)
    assert mon.summary.n_samples > 5


def test_gpu_profile_without_parentheses(capsys):
    @profgpu.gpu_profile
    def work(x):
        """Doubles."""
        return 2 * x

    assert work(4) == 8 and work.__doc__ == 'Doubles.' and 'util.gpu' in capsys.readouterr().out
    with pytest.raises(TypeError, match='by name'):
        profgpu.gpu_profile(0)


def test_gpu_profile(capsys):
    calls = []

    @profgpu.gpu_profile(backend=REPLAY, interval_s=0.01, warmup_runs=3)
    def work(x):
        """doc"""
        calls.append(x)
        return x + 1

    assert work(1) == 2 and calls == [1] and work.__doc__ == 'doc' and '[GPU 0]' in capsys.readouterr().out
    shown = []
    several = profgpu.gpu_profile(backend='none', repeats=3, warmup_runs=2, return_profile=True, report=shown.append)
    result = several(lambda: calls.append(0))()
    assert isinstance(result, MultiRunResult) and len(result.runs) == 3 and len(calls) == 6 and shown == [result]
    once = profgpu.gpu_profile(backend='none', report=False, return_profile=True)(lambda: 5)()
    assert once.value == 5 and once.gpu.name == 'N/A'
    for wrong in (dict(repeats=0), dict(warmup_runs=-1)):
        with pytest.raises(ValueError):
            profgpu.gpu_profile(**wrong)
        with pytest.raises(ValueError):
            profgpu.profile_repeats(lambda: 0, **wrong)


def test_an_exception_passes():
    @profgpu.gpu_profile(backend=REPLAY, report=False, strict=True)
    def fails():
        raise KeyError('mine')

    with pytest.raises(KeyError, match='mine'):
        fails()


def test_run_stats():
    result = profgpu.profile_repeats(lambda: time.sleep(0.05), repeats=2, backend=REPLAY, interval_s=0.01, report=False)
    assert result.duration.min >= 0.05 and result.stats_for('temp_mean_c').mean > 0
    assert result.format().startswith('=== Multi-Run GPU Profile (2 runs) ===\n[GPU 0] ')
    stats = RunStats.of([1.0, math.nan, 3.0])
    assert (stats.mean, stats.min, stats.max, len(stats.values)) == (2.0, 1.0, 3.0, 3)
    assert stats.std == pytest.approx(math.sqrt(2)) and math.isnan(RunStats.of([1.0]).std)
    assert stats.format('%', 1) == '2.0% ± 1.4%  (range 1.0%-3.0%)'
    assert RunStats.of([math.nan]).format() == 'n/a ± n/a  (range n/a-n/a)'
    assert MultiRunResult.from_runs([], None).format() == '(no runs)'


def test_gpu_monitor_of_the_guide(tmp_path):
    from profgpu.guide import GPUMonitor
    with GPUMonitor(0.01, REPLAY) as mon:
        time.sleep(0.2)
        now = mon.get_metrics()
    assert [m['gpu_id'] for m in now] == [0, 1]
    assert set(now[0]) == {'gpu_id', 'gpu_util_pct', 'memory_util_pct', 'memory_used_gb', 'memory_total_gb', 'power_w',
                           'temperature_c'}
    assert 80 < now[0]['memory_total_gb'] < 90 and now[0]['power_w'] > 0
    summary = mon.get_summary()
    assert [gpu['gpu_id'] for gpu in summary['gpus']] == [0, 1]
    assert summary == mon.summary and len(summary['gpus']) == 2 and 'busy' in str(summary)
    log = tmp_path / 'log.jsonl'
    other = GPUMonitor(0.01, REPLAY)
    other.start_logging(0.02, str(log))
    time.sleep(0.2)
    other.stop_logging()
    assert len(log.read_text().splitlines()) >= 4 and '"timestamp"' in log.read_text()
    assert 'no GPU' in str(GPUMonitor(backend='none').get_summary()) and GPUMonitor(backend='none').get_metrics() == []


def test_a_loop_of_callbacks():
    from profgpu.integrations.loop import Loop
    loop = Loop(monitor())
    loop.start()
    for number in range(4):
        loop.begin('step', number)
        loop.begin('forward')
        time.sleep(0.02)
        if number != 2:  # a batch that raised: what was open ends with its step
            loop.end('forward')
        loop.end('step')
    loop.end('never begun')
    metrics = loop.metrics()
    loop.stop()
    assert metrics['profgpu/step_s'] >= metrics['profgpu/forward_s'] >= 0.02 and metrics['profgpu/gpu/util_gpu_mean'] >= 0
    assert {name: loop.monitor.summary.phases[name]['count'] for name in ('step', 'forward')} == {'step': 4, 'forward': 4}
    assert 'profgpu/step_s' not in loop.metrics(), 'of the steps since the last call'
    with monitor() as shared:
        loop = Loop(shared)
        loop.start()
        loop.stop()
        assert shared.running, 'it is not the loop that started it'
    assert not shared.running


def test_lightnings_steps_count_over_epochs(monkeypatch):
    import sys
    import types
    lightning, numbers = types.ModuleType('lightning.pytorch'), []
    lightning.Callback = object
    monkeypatch.setitem(sys.modules, 'lightning', types.ModuleType('lightning'))
    monkeypatch.setitem(sys.modules, 'lightning.pytorch', lightning)
    monkeypatch.delitem(sys.modules, 'profgpu.integrations.lightning', raising=False)
    from profgpu.integrations.lightning import ProfgpuCallback
    callback, trainer = ProfgpuCallback(monitor=None), types.SimpleNamespace(log_every_n_steps=0)
    monkeypatch.setattr(callback.loop, 'begin', lambda name, number=None: numbers.append(number))
    for epoch in range(2):
        for batch in range(3):
            callback.on_train_batch_start(trainer, None, None, batch)
            callback.on_train_batch_end(trainer, None, None, None, batch)
    monkeypatch.delitem(sys.modules, 'profgpu.integrations.lightning')
    assert numbers == list(range(6))


@pytest.fixture
def stand_in():
    """stand_in(scenario, script): what it prints on a machine with such devices."""
    build = os.path.dirname(os.environ['PROFGPU_LIBRARY'])
    stub = os.environ.get('NVML_STUB') or os.path.join(build, 'tests', 'stubs', 'libnvidia-ml.so.1')
    if not os.path.exists(stub):
        pytest.skip('the stand-in NVML is not built')

    def run(scenario, script):
        path = os.path.join(ROOT, 'tests', 'stubs', 'nvml', 'scenarios', scenario + '.txt')
        return run_script(script, PROFGPU_NVML_LIBRARY=stub, PROFGPU_NVML_SCENARIO=path)

    return run


def test_nvml(stand_in):
    said = stand_in('busy_then_idle', """
import profgpu, time
with profgpu.GpuMonitor(backend="NVML", interval_s=0.02, strict=True, store_samples=True) as m:
    time.sleep(0.3)
s = m.summary
print(s.name, s.n_samples > 5, s.power_mean_w > 0, s.util_gpu_max > 0, m.samples[-1].sm_clock_mhz > 0)
""")
    assert said.rstrip().endswith('True True True True'), said


def test_the_gpu_that_the_process_uses(stand_in):
    script = """
import os, time
os.environ.update(%s)
from profgpu.integrations.loop import Loop
loop = Loop(True)
loop.start()
until = time.monotonic() + 30
while not loop.metrics().get("profgpu/gpu/util_gpu_mean") and time.monotonic() < until and %r:
    time.sleep(0.05)
time.sleep(0.5)
print(loop.monitor.device, loop.metrics()["profgpu/gpu/util_gpu_mean"] > 50)
loop.stop()
"""
    assert stand_in('two_h100', script % ({}, True)).split() == ['cuda:0', 'True']
    assert stand_in('two_h100', script % ({'LOCAL_RANK': '1'}, False)).split() == ['cuda:1', 'False']
    assert stand_in('two_h100', script % ({'CUDA_VISIBLE_DEVICES': '1', 'LOCAL_RANK': '3'}, False)).split() == ['cuda:0', 'False']


def test_a_lost_gpu_has_no_metrics(stand_in):
    said = stand_in('lost', """
import time
from profgpu.guide import GPUMonitor
with GPUMonitor(0.05) as monitor:
    assert monitor.get_metrics()[1]["gpu_util_pct"] is not None
    until = time.monotonic() + 60
    while monitor.get_metrics()[1]["gpu_util_pct"] is not None and time.monotonic() < until:
        time.sleep(0.1)
    print([m["gpu_util_pct"] is None for m in monitor.get_metrics()])
""")
    assert said.rstrip().endswith('[False, True]'), said


def test_a_monitor_watches_one_block_at_a_time():
    mon = monitor()
    with mon:
        with pytest.raises(RuntimeError, match='running already'):
            mon.start()
    assert mon.summary.n_samples >= 0
    with mon:
        pass


def test_what_is_never_awaited_is_an_error():
    async def work():
        pass

    class Worker:
        async def __call__(self):
            return 3

    with pytest.raises(ValueError, match='until it is awaited'):
        profgpu.profile_repeats(lambda: work(), repeats=1, backend='none')
    import asyncio
    assert asyncio.run(profgpu.gpu_profile(Worker(), backend='none', report=False)()) == 3


@pytest.mark.parametrize('scenario', ['lost', 'hang'])
@pytest.mark.parametrize('strict', [False, True])
def test_a_device_that_stops_answering(stand_in, scenario, strict):
    said = stand_in(scenario, f"""
import profgpu, time
begin = time.monotonic()
try:
    with profgpu.GpuMonitor(1, interval_s=0.02, strict={strict}) as m:
        time.sleep(1.5)
    print("summary", m.summary.notes)
except profgpu.GpuBackendError as error:
    print("error", error)
assert time.monotonic() - begin < 60
""")
    assert said.startswith('error sampling failed' if strict else 'summary ') and len(said) > 12, said
