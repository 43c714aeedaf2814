"""benchmark, compare and crossover: against known truth, and what they say of it."""
import math
import random
import time
from math import comb

import pytest

import profgpu
from profgpu import benchmark, compare, crossover
from profgpu.timing import Timing, median_interval, seconds


class Clock:
    """A clock that only work moves on, within a few percent of what it should take: a real one also counts what others do."""

    def __init__(self):
        self.now, self.chance = 1000.0, random.Random(3)

    def __call__(self):
        self.now += 1e-8
        return self.now

    def work(self, s):
        self.now += s * (1 + 0.03 * self.chance.random())


@pytest.fixture
def busy(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, 'perf_counter', clock)
    return clock.work


@pytest.mark.parametrize('n', [1, 2, 5, 6, 9, 10, 20, 21, 50, 101])
def test_the_interval_is_the_narrowest_that_covers(n):
    """By the binomial distribution: how likely the median lies between the k-th least and the k-th greatest value."""
    low, high = median_interval(list(range(n)))

    def coverage(k):
        return 1 - 2 * sum(comb(n, i) for i in range(k + 1)) / 2**n

    assert high == n - 1 - low
    if n >= 6:
        assert coverage(low) >= 0.95 and (coverage(low + 1) < 0.95 or low + 1 >= n / 2)
    else:
        assert low == 0


def test_the_interval_covers_as_often_as_it_says():
    chance = random.Random(7)
    hits = 0
    for _ in range(1000):
        low, high = median_interval([chance.expovariate(1.0) for _ in range(20)])
        hits += low <= math.log(2) <= high
    assert hits >= 930


def test_a_known_time(busy):
    timing = benchmark(busy, 0.002, warmup=1, repeats=20, min_time=0)
    assert timing.min_s >= 0.002 and timing.percentile_s(25) < 0.003 and len(timing.times_s) == 20
    assert timing.interval_s[0] <= timing.median_s <= timing.interval_s[1]
    assert timing.method == 'wall clock' and 'ms' in str(timing)
    assert timing.metrics()['time/runs'] == 20 and timing.std_s >= 0


def test_the_first_call_is_apart(busy):
    calls = []

    def lazy():
        busy(0.05 if not calls else 0.0005)
        calls.append(1)

    timing = benchmark(lazy, warmup=2, repeats=5, min_time=0)
    assert timing.first_call_s >= 0.05 > timing.max_s
    assert len(calls) == 1 + 2 + 2 + 5, 'first, warm-up, two to see how long it takes, runs'


def test_short_calls_are_timed_together():
    timing = benchmark(lambda: None, repeats=10, min_time=0.01)
    assert timing.calls_per_run > 10 and timing.median_s < 5e-6
    assert sum(timing.times_s) * timing.calls_per_run >= 0.01


def test_sync_and_flush(busy):
    synced = []
    timing = benchmark(busy, 1e-4, warmup=1, repeats=3, min_time=0, sync=lambda: synced.append(1), flush_cache=True)
    assert timing.method == 'wall clock, synchronized' and len(synced) >= 2 * 3 and timing.calls_per_run == 1
    assert benchmark(sum, [1, 2], repeats=1, min_time=0, kwargs={'start': 3}).median_s > 0
    for wrong in (dict(warmup=-1), dict(repeats=0), dict(sync='cuda')):
        with pytest.raises(ValueError):
            benchmark(lambda: None, **wrong)


def test_an_exception_passes_and_collection_is_on_again(busy):
    import gc
    calls = []

    def fails_later():
        calls.append(1)
        if len(calls) > 8:
            raise KeyError('mine')
        busy(1e-4)

    with pytest.raises(KeyError, match='mine'):
        benchmark(fails_later)
    assert gc.isenabled()


def test_compare_tells_a_difference_from_none(busy):
    twice = compare(lambda: busy(5e-4), lambda: busy(1e-3), repeats=15, min_time=0)
    assert twice.is_real and 1.7 < twice.ratio < 2.3 and 'slow' in str(twice) and twice
    other = compare(lambda: busy(1e-3), lambda: busy(5e-4), repeats=15, min_time=0)
    assert other.is_real and other.ratio < 0.6 and 'fast' in str(other)
    same = compare(lambda: busy(5e-4), lambda: busy(5e-4), repeats=15, min_time=0, threshold=0.1)
    assert not same and 'no real difference' in str(same)


def test_compare_takes_turns(busy):
    order = []
    compare(lambda: (order.append('a'), busy(1e-4)), lambda: (order.append('b'), busy(1e-4)), warmup=0, repeats=4, min_time=0)
    assert ''.join(order[-8:]) == 'abbaabba'


def test_crossover(busy):
    """The CPU takes size µs, the GPU 300 µs, and each copy another 300."""
    found = crossover(lambda n: busy(n * 1e-6), lambda n: busy(3e-4), [100, 500, 2000], make=lambda n: n,
                      to_gpu=lambda n: (busy(3e-4), n)[1], from_gpu=lambda n: busy(3e-4), warmup=0, repeats=5, min_time=0)
    assert found.size == 500 and found.size_with_copies == 2000
    drawn = str(found)
    assert drawn.count('█') > 30 and 'the GPU wins from 500 on, data in its memory' in drawn and '2000 on, with both' in drawn
    assert '<pre>' in found._repr_html_()
    never = crossover(lambda n: busy(1e-5), lambda n: busy(1e-4), [1, 2], make=lambda n: n, to_gpu=lambda n: n,
                      from_gpu=lambda n: n, warmup=0, repeats=3, min_time=0)
    assert never.size is None and 'does not win' in str(never)
    with pytest.raises(ValueError):
        crossover(len, len, [])


def test_crossover_without_a_gpu_says_so(monkeypatch):
    import sys
    import types
    cuda = types.SimpleNamespace(is_available=lambda: False)
    for torch, why in ((types.SimpleNamespace(cuda=cuda, version=types.SimpleNamespace(cuda=None)), 'built without CUDA'),
                       (types.SimpleNamespace(cuda=cuda, version=types.SimpleNamespace(cuda='12.4')), 'finds no GPU'),
                       (None, 'not installed')):
        monkeypatch.setitem(sys.modules, 'torch', torch)
        with pytest.raises(profgpu.ProfgpuError, match=why) as error:
            crossover(len, len, [1], make=lambda n: [n])
        assert 'to_gpu' in error.value.hint


def test_texts():
    assert [seconds(x) for x in (2.5, 0.0012, 3e-6, 4e-9, math.nan)] == ['2.5 s', '1.2 ms', '3 µs', '4 ns', 'n/a']
    assert math.isnan(Timing((1.0,), 1.0, '').std_s) and Timing((1.0, 3.0), 0.0, '').percentile_s(50) == 2.0
