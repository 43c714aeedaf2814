"""Monitors and ranges where programs do more than one thing: threads, coroutines, generators, forks, signals, exits."""
import asyncio
import contextlib
import gc
import inspect
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from package_script import REPLAY, ROOT, run_script

import profgpu

pytestmark = pytest.mark.usefixtures('package')


def monitor(**more):
    return profgpu.GpuMonitor(**{'backend': REPLAY, 'interval_s': 0.01, **more})


def profiled(**more):
    return profgpu.gpu_profile(**{'backend': REPLAY, 'interval_s': 0.01, 'report': False, **more})


# Coroutines and generators are watched until they are done.

def test_a_coroutine_is_watched_until_it_is_done(capsys):
    @profiled(return_profile=True)
    async def work(x):
        await asyncio.sleep(0.1)
        return x + 1

    @profiled(report=True, repeats=2, warmup_runs=1)
    async def several(calls):
        await asyncio.sleep(0.05)
        calls.append(1)
        return len(calls)

    assert inspect.iscoroutinefunction(work)
    result = asyncio.run(work(1))
    assert result.value == 2 and result.gpu.duration_s >= 0.1 and result.gpu.n_samples > 5
    assert asyncio.run(several([])) == 3 and '(2 runs)' in capsys.readouterr().out

    async def cancelled():
        task = asyncio.ensure_future(work(1))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


def test_who_does_not_await_says_so():
    async def work():
        pass

    for call in (profgpu.benchmark, lambda fn: profgpu.compare(fn, fn), profgpu.profile_repeats):
        with pytest.raises(ValueError, match='await'):
            call(work)

    def items():
        yield

    for call in (profgpu.benchmark, lambda fn: profgpu.compare(fn, fn)):
        with pytest.raises(ValueError, match='iterated'):
            call(items)


def test_a_generator_is_watched_until_it_ends_or_is_closed():
    shown = []

    @profiled(report=shown.append, return_profile=True)
    def items(n):
        got = []
        for i in range(n):
            time.sleep(0.05)
            got.append((yield i))
        return got

    assert list(items(3)) == [0, 1, 2] and len(shown) == 1 and shown[0].duration_s >= 0.15 and shown[0].n_samples > 5
    generator = items(2)
    assert next(generator) == 0 and generator.send('a') == 1
    with pytest.raises(StopIteration) as end:
        next(generator)
    assert end.value.value.value == ['a', None] and end.value.value.gpu is shown[1]
    generator, begun = items(5), time.monotonic()
    next(generator)
    generator.close()
    assert len(shown) == 3 and 0.05 <= shown[2].duration_s <= time.monotonic() - begun
    with pytest.raises(ValueError, match='once'):
        profiled(repeats=2)(items)


def test_an_asynchronous_generator():
    shown, ended = [], []

    @profiled(report=shown.append)
    async def items(n):
        try:
            for i in range(n):
                await asyncio.sleep(0.03)
                ended.append((yield i))
        finally:
            ended.append('end')

    async def use():
        found = [item async for item in items(3)]
        some = items(5)
        await some.asend(None)
        await some.asend('sent')
        await some.aclose()
        return found

    assert asyncio.run(use()) == [0, 1, 2] and ended == [None, None, None, 'end', 'sent', 'end']
    assert len(shown) == 2 and shown[0].duration_s >= 0.09 and shown[1].duration_s >= 0.06
    with pytest.raises(ValueError, match='asynchronous'):
        profiled(return_profile=True)(items)


@pytest.mark.parametrize('decorated', [profgpu.annotate('items'), profiled()])
def test_an_asynchronous_generator_gets_what_is_thrown(decorated):
    seen = []

    @contextlib.asynccontextmanager
    @decorated
    async def resource():
        try:
            yield 'open'
        except KeyError:
            seen.append('caught')
        finally:
            seen.append('closed')

    async def use():
        async with resource() as state:
            seen.append(state)
            raise KeyError
        async with resource():
            raise ValueError

    with pytest.raises(ValueError):
        asyncio.run(use())
    assert seen == ['open', 'caught', 'closed', 'closed']


def test_annotated_functions_are_ranges_while_they_run():
    @profgpu.annotate('coroutine')
    async def wait(name):
        time.sleep(0.02)
        await asyncio.sleep(1)
        return name

    @profgpu.annotate('generator')
    def items():
        for i in range(3):
            time.sleep(0.02)
            yield i

    @profgpu.annotate('items')
    async def items_async():
        for i in range(3):
            time.sleep(0.02)
            await asyncio.sleep(0)
            yield i

    async def all_of_it():
        await asyncio.gather(wait('a'), wait('b'))
        return [i async for i in items_async()]

    with monitor() as mon:
        assert asyncio.run(all_of_it()) == [0, 1, 2]
        for _ in items():
            time.sleep(0.4)
    phases = mon.summary.phases
    assert 0.04 <= phases['coroutine']['duration_s'] < 1, 'without what it waited for'
    assert 0.06 <= phases['generator']['duration_s'] < 1.2 and phases['items']['duration_s'] >= 0.06


@pytest.mark.parametrize('name', [3, None, b'x', '\ud800'])
def test_whatever_names_a_range_is_no_error_where_something_listens(name):
    with monitor() as mon:
        for opened in (profgpu.phase(name), profgpu.annotate(name), profgpu.step(name)):
            with opened:
                pass
        profgpu.mark(name)
    assert {'step'} < set(mon.summary.phases)


def test_what_cannot_be_annotated():
    class Model:
        pass

    for wrong in (Model, classmethod(lambda cls: 1), 5):
        with pytest.raises(TypeError, match='a function, not'):
            profgpu.annotate('name')(wrong)
    with pytest.raises(TypeError, match='takes a name'):
        profgpu.annotate(lambda: 1)


# Threads

def test_a_monitor_has_the_phases_of_its_own_thread():
    found = {}
    shared = profgpu.annotate('shared')

    def work(number):
        with monitor() as mon:
            for _ in range(20):
                with profgpu.step(), profgpu.phase('part %d' % number), shared:
                    time.sleep(0.002)
        found[number] = mon.summary.phases

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(8):
        assert {p for p in found[number] if p.startswith('part')} == {'part %d' % number}
        assert found[number]['shared']['count'] == 20 and found[number]['step']['count'] == 20
    with profgpu.phase('nobody listens') as nothing:
        assert nothing is None, 'every monitor has taken leave'


def test_a_monitor_that_several_threads_stop():
    for _ in range(20):
        mon = monitor()
        mon.start()
        threads = [threading.Thread(target=call) for call in (mon.stop, mon.snapshot, mon.stop, mon.table, mon.stop)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert mon.summary is not None and mon.stop() is mon.summary


def test_nested_monitors_and_an_exception():
    with monitor() as outer:
        with pytest.raises(KeyError):
            with monitor() as inner, profgpu.step(), profgpu.phase('fails'):
                time.sleep(0.03)
                raise KeyError
        with profgpu.phase('later'):
            time.sleep(1)
    assert inner.summary.phases['fails']['count'] == outer.summary.phases['fails']['count'] == 1
    assert 'later' in outer.summary.phases and 'later' not in inner.summary.phases
    assert outer.summary.phases['fails']['duration_s'] < 1, 'its end was told'


# Processes

def in_a_child(mon, pipe):
    with profgpu.step(), profgpu.phase('child'):
        time.sleep(0.02)
    before = mon.stop().n_samples
    with pytest.raises(profgpu.ProfgpuError, match='process'):
        mon.table()
    with mon, profgpu.phase('again'):
        time.sleep(0.1)
    with monitor() as fresh:
        time.sleep(0.1)
    pipe.send((before, mon.summary.n_samples, list(mon.summary.phases), fresh.summary.n_samples))


@pytest.mark.parametrize('running', [False, True])
def test_a_forked_child_watches_anew(running):
    context = multiprocessing.get_context('fork')
    ours, theirs = context.Pipe()
    mon = monitor()
    if running:
        mon.start()
    child = context.Process(target=in_a_child, args=(mon, theirs))
    child.start()
    assert ours.poll(20), 'the child hangs'
    before, again, phases, fresh = ours.recv()
    child.join(20)
    assert child.exitcode == 0 and before == 0 and again > 3 and fresh > 3 and 'again' in phases
    if running:
        assert mon.stop().n_samples > 5 and not {'child', 'again'} & set(mon.summary.phases)


def test_workers_of_a_loader():
    torch = pytest.importorskip('torch')

    class Items(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, i):
            with profgpu.step(), profgpu.phase('decode'), monitor() as mon:
                time.sleep(0.03)
            return mon.summary.n_samples

    with monitor() as mon:
        counts = [int(n) for batch in torch.utils.data.DataLoader(Items(), batch_size=2, num_workers=2) for n in batch]
    assert len(counts) == 8 and min(counts) > 0 and 'decode' not in mon.summary.phases


INTERRUPTED = f"""
import profgpu, sys, time
mon = profgpu.GpuMonitor(backend={REPLAY!r}, interval_s=0.01)
try:
    with mon, profgpu.step(), profgpu.phase("endless"):
        print("ready", flush=True)
        time.sleep(60)
except KeyboardInterrupt:
    print(mon.summary.n_samples > 0, "endless" in mon.summary.phases)
    raise
"""


def test_ctrl_c_within_a_monitor():
    environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, 'python'))
    with subprocess.Popen([sys.executable, '-c', INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment) as process:
        assert process.stdout.readline() == 'ready\n'
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    assert out == 'True True\n' and process.returncode == -signal.SIGINT and 'KeyboardInterrupt' in error


@pytest.mark.parametrize('end', ['', 'sys.exit(0)', 'mon = None', 'threading.Thread(target=lambda: time.sleep(0.2)).start()'])
def test_an_end_with_a_monitor_that_runs(end):
    script = (f'import profgpu, sys, threading, time\nmon = profgpu.GpuMonitor(backend={REPLAY!r}, interval_s=0.01)\n'
              f'mon.start()\nfrom profgpu.guide import GPUMonitor\nother = GPUMonitor(0.01, {REPLAY!r})\nother.start()\n'
              f'with profgpu.phase("x"): time.sleep(0.05)\nprint("done")\n{end}')
    assert run_script(script) == 'done\n'


CYCLES = f"""
import gc, os, threading, profgpu
def threads(): return len(os.listdir("/proc/self/task"))
def resident():
    gc.collect()
    with open("/proc/self/statm") as file: return int(file.read().split()[1]) * 4096
mon = profgpu.GpuMonitor(backend={REPLAY!r}, interval_s=0.01)
def cycle(fresh):
    m = profgpu.GpuMonitor(backend={REPLAY!r}, interval_s=0.01, store_samples=True) if fresh else mon
    with m, profgpu.step(), profgpu.phase("x"): pass
for n in range(300): cycle(n % 4 == 0)
before = threads(), resident()
for n in range(CYCLES): cycle(n % 4 == 0)
after = threads(), resident()
assert after[0] == before[0], (before, after)
print(after[1] - before[1])
"""


def test_many_starts_leave_nothing():
    grown = int(run_script(CYCLES.replace('CYCLES', '1500')))
    assert grown < 2_000_000, f'{grown} bytes'


def test_a_monitor_goes_with_its_owner():
    before = len(os.listdir('/proc/self/task'))
    for _ in range(3):
        monitor().start()
    gc.collect()
    assert len(os.listdir('/proc/self/task')) == before
