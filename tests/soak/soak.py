"""Long runs: what must not grow, get lost or differ however long a program runs or however many ranks a job has.

`make soak` runs them, SOAK_SECONDS each (300 if it is not set), as a part of `make check-all`. The measurements are those of bench/.
"""
import json
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, 'bench'), os.path.join(ROOT, 'tests', 'python'), os.path.join(ROOT, 'tests', 'support')]
import day  # noqa: E402
import sampler  # noqa: E402
from conftest import program  # noqa: E402
from test_job import MPIRUN, without_launcher  # noqa: E402
from test_record import SIM, document, environment  # noqa: E402

SECONDS = float(os.environ.get('SOAK_SECONDS', '300'))
PROGRAM = program('PROFGPU', 'profgpu')
BUILD = os.path.dirname(PROGRAM)
MiB = 1 << 20


@pytest.mark.parametrize('run', [day.exporter_day, day.monitor_day])
def test_a_day_of_samples_leaves_memory_as_it_was(run):
    result = run(BUILD, max(SECONDS, 2 * day.SETTLED))
    assert result['readings'] > 500 * result['seconds']
    assert result['most_bytes'] - result['settled_bytes'] < MiB, result


def test_a_sampler_loses_nothing_and_does_not_grow(tmp_path):
    result = sampler.soak(sampler.Stage(BUILD, str(tmp_path)), SECONDS)
    # A machine with other work may be late; then it is said. Each tick is accounted for, and most are in time.
    assert abs(result['ticks'] + result['missed_ticks'] - 100 * SECONDS) < 2 + 0.001 * 100 * SECONDS, result
    assert result['ticks'] > 50 * SECONDS, result
    # A reading of the driver's buffer every 2 s gets all of the values that it took, ten a second.
    assert result['driver_values'] >= result['driver_values_due'] - 1, result
    assert result['resident_late_bytes'] - result['resident_early_bytes'] < MiB / 2, result


def test_a_recorded_program_does_not_grow_and_nothing_is_dropped(tmp_path):
    def recorded(name, seconds):
        kernels = 20_000 * int(seconds)
        said = subprocess.run([PROGRAM, 'run', '--backend', 'none', '--trace', '-o', tmp_path / name, '--', SIM, '--kernels', str(kernels), '--rate', '20000'],
                              env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        summary = document(tmp_path / name)['recording']
        assert summary['kernels'] == kernels and summary['problems'] == [], summary['problems']
        return json.loads(said.stdout.splitlines()[-1])['peak_kb']

    short = recorded('short', 5)
    assert recorded('long', SECONDS) - short < 2048
    (process,) = document(tmp_path / 'long')['recording']['processes']
    assert process['ended']
    report = json.loads(subprocess.run([PROGRAM, 'analyze', tmp_path / 'long', '--json'], capture_output=True, check=True).stdout)
    assert sum(k['count'] for k in report['ranks'][0]['kernels'] if k['kind'] == 'compute') == 20_000 * int(SECONDS)


def test_a_job_of_many_ranks_is_the_same_through_mpi(tmp_path):
    ranks = 512
    subprocess.run([program('KINETO_SIM', 'kineto-sim'), '--out', tmp_path / 'job', '--ranks', str(ranks), '--hosts', '64', '--steps', '3', '--layers', '2',
                    '--clock-offset', '7:40000000', '--fault', 'straggler-rank'], check=True, capture_output=True)
    words = ['analyze', str(tmp_path / 'job'), '--json']
    alone = subprocess.run([PROGRAM, *words], env=without_launcher(), capture_output=True, check=True).stdout
    assert json.loads(alone)['cluster']['world_size'] == ranks
    for count in (2, 5):
        together = subprocess.run([*MPIRUN, '-n', str(count), PROGRAM, *words, '--mpi'], env=without_launcher(), stdin=subprocess.DEVNULL, capture_output=True,
                                  check=True)
        assert together.stdout == alone
