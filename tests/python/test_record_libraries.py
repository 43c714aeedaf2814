"""Calls of MPI, cuBLAS and cuDNN in recordings: sizes, partners, ranks and waits, of real MPI programs and of a stand-in library;
and PyTorch's operators recorded by the same command."""
import json
import os
import shutil
import subprocess
import sys

import pytest
from test_record import PROGRAM, ROOT, document, environment, files, mpirun, processes, record

MPI = r'''
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double* data = calloc(1 << 12, sizeof(double));
  for (int i = 0; i < 4; ++i) {
    MPI_Allreduce(MPI_IN_PLACE, data, 1 << 12, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) MPI_Send(data, 1000, MPI_FLOAT, 1, 7, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(data, 1000, MPI_FLOAT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Bcast(data, 512, MPI_INT, 2, MPI_COMM_WORLD);
  }
  MPI_Send(data, 10, MPI_FLOAT, MPI_PROC_NULL, 7, MPI_COMM_WORLD);
  MPI_Comm alone;   // its handle is given to the next one
  MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &alone);
  MPI_Barrier(alone);
  MPI_Comm_disconnect(&alone);
  MPI_Comm pair;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 2, rank, &pair);
  MPI_Barrier(pair);
  MPI_Comm_free(&pair);
  MPI_Request request;
  int* all = calloc(size, sizeof(int));
  MPI_Iallgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  printf("%d:%d\n", rank, all[size - 1]);
  free(data), free(all);
  return MPI_Finalize();
}
'''


@pytest.fixture(scope='module')
def mpi_program(tmp_path_factory):
    if shutil.which('mpicc') is None or shutil.which('mpirun') is None:
        pytest.skip('not installed: mpicc, mpirun')
    folder = tmp_path_factory.mktemp('mpi')
    (folder / 'm.c').write_text(MPI)
    subprocess.run(['mpicc', '-o', folder / 'm', folder / 'm.c'], check=True, timeout=60)
    return folder / 'm'


def check_calls(folder):
    ranks = {int(p.properties['rank']): p for p in processes(folder).values()}
    assert sorted(ranks) == [0, 1, 2]
    for rank, p in ranks.items():
        calls = [(c['algorithm'], c['function'], c['count'], c['root_or_peer'], c['rank'], c['ranks'])
                 for c in p['collective']]
        assert calls.count(('MPI_Allreduce', 'AllReduce', 8 << 12, -1, rank, 3)) == 4
        assert calls.count(('MPI_Bcast', 'Broadcast', 2048, 2, rank, 3)) == 4
        assert calls.count(('MPI_Iallgather', 'AllGather', 4, -1, rank, 3)) == 1
        assert calls.count(('MPI_Send', 'Send', 4000, 1, 0, 3)) == (4 if rank == 0 else 0)
        assert calls.count(('MPI_Recv', 'Recv', 4000, 0, 1, 3)) == (4 if rank == 1 else 0)
        assert calls.count(('MPI_Send', 'Send', 0, -1, rank, 3)) == 1, 'to nobody'
        barriers = [call[4:] for call in calls if call[0] == 'MPI_Barrier']
        assert barriers == [(0, 1), (0, 1) if rank == 2 else (rank, 2)]
        assert all(c['duration_ns'] >= 0 for c in p['collective'])
        ranges = [r['name'] for r in p['range_event'] if r['op'] == 1]
        assert {'MPI_Init', 'MPI_Comm_split', 'MPI_Wait', 'MPI_Finalize'} <= set(ranges)
    worlds = [{c['communicator'] for c in p['collective'] if c['ranks'] == 3} for p in ranks.values()]
    assert worlds[0] == worlds[1] == worlds[2] and len(worlds[0]) == 1, 'one communicator, by the same number everywhere'
    pairs = [{c['communicator'] for c in p['collective'] if c['ranks'] == 2} for p in ranks.values()]
    assert pairs[0] == pairs[1] and len(pairs[0]) == 1 and pairs[0] != worlds[0]


def report_of(folder):
    r = subprocess.run([PROGRAM, 'analyze', '--json', folder], env=environment(), capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def test_an_mpi_program_that_mpirun_starts_under_profgpu(mpi_program, tmp_path):
    """`mpirun -n 3 profgpu run --trace -- ./m`: no CUDA, no link, no folder named."""
    r = subprocess.run(mpirun(PROGRAM, 'run', '--backend', 'none', '--trace', '--', mpi_program), cwd=tmp_path,
                       env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    assert sorted(line for line in r.stdout.split() if ':' in line) == ['0:2', '1:2', '2:2']
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith('profgpu-m-') and 'no kernel was recorded' not in r.stderr
    check_calls(folder)
    report = report_of(folder)
    assert len(report['ranks']) == 3
    found = {c['name']: c for c in report['ranks'][0]['collectives']}
    assert found['all_reduce']['calls'] == 4 and found['all_reduce']['message_bytes'] == 8 << 12
    assert found['all_reduce']['total_ns'] > 0 and found['broadcast']['total_ns'] > 0, 'the time in the calls'


LATE = r'''
#include <mpi.h>
#include <unistd.h>
int main(int argc, char** argv) {
  int rank, sum, one = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 20; ++i) {
    if (rank == 1) usleep(50000);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  return MPI_Finalize();
}
'''


def test_the_late_rank_of_an_mpi_program_is_named(mpi_program, tmp_path):
    (tmp_path / 'm.c').write_text(LATE)
    subprocess.run(['mpicc', '-o', tmp_path / 'm', tmp_path / 'm.c'], check=True, timeout=60)
    record('-o', tmp_path / 'x', '--preload', command=mpirun(tmp_path / 'm'))
    report = report_of(tmp_path / 'x')
    # A second of sleep; on a busy machine the others are late themselves for a part of it.
    first, late, _ = ({c['name']: c for c in rank['collectives']}['all_reduce'] for rank in report['ranks'])
    assert first['exposed_ns'] == first['total_ns'] > 300e6, 'the call blocks the program'
    assert 100e6 < first['wait_ns'] <= first['total_ns'] and late['wait_ns'] < first['wait_ns'] / 2
    (straggler,) = report['cluster']['stragglers']
    assert straggler['rank'] == 1 and straggler['excess_ns_per_step'] > 250e6
    (finding,) = (f for f in report['findings'] if f['rule'] == 'straggler-rank')
    assert finding['ranks'] == [1] and 'rank 1' in finding['what'], finding['what']
    assert straggler['kind'] == 'longer_between_calls' and 'between calls of MPI' in finding['what']
    waiting, works, _ = (rank['mpi'] for rank in report['ranks'])
    assert next(f['name'] for f in waiting['functions'] if f['name'] != 'MPI_Init') == 'MPI_Allreduce'
    assert waiting['total_ns'] > works['total_ns'] + 250e6
    assert works['outside_ns'] > waiting['outside_ns'] + 250e6
    assert 'GPU activity' not in report['verdict']
    assert not [i for file in report['inputs'] for i in file['issues'] if i['kind'] == 'no_device_activity']


MESSAGES = r'''
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char* data = calloc(1000, 1);
  for (int i = 0; i < 20; ++i) {
    if (rank == 1) usleep(20000);
    if (rank == 1) MPI_Send(data, 1000, MPI_CHAR, 0, 7, MPI_COMM_WORLD);
    if (rank == 0) MPI_Recv(data, 1000, MPI_CHAR, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  return MPI_Finalize();
}
'''


def test_a_late_sender_of_an_mpi_program_is_named(mpi_program, tmp_path):
    (tmp_path / 'm.c').write_text(MESSAGES)
    subprocess.run(['mpicc', '-o', tmp_path / 'm', tmp_path / 'm.c'], check=True, timeout=60)
    record('-o', tmp_path / 'x', '--preload', command=mpirun(tmp_path / 'm', count=2))
    report = report_of(tmp_path / 'x')
    assert [way['kind'] for way in report['cluster']['parallelism']] == ['unknown'], 'messages do not make a pipeline'
    assert 'pipeline-bubble' not in [f['rule'] for f in report['findings']]
    (finding,) = (f for f in report['findings'] if f['rule'] == 'mpi-imbalance')
    assert finding['ranks'] == [1] and 'MPI_Recv' in finding['what'], finding['what']
    assert finding['cost_ns'] > 250e6
    assert any('rank 0 is in MPI_Recv' in text and 'in 20 calls of ' in text for text in finding['evidence']), finding
    assert any('until rank 1 sends' in text for text in finding['evidence']), finding
    text = subprocess.run([PROGRAM, 'analyze', tmp_path / 'x'], env=environment(), capture_output=True, text=True,
                          timeout=60).stdout
    assert 'No GPU' not in text and 'no GPU' not in text
    assert 'outside MPI' in text and 'MPI_Recv' in text


def test_profgpu_that_starts_mpirun(mpi_program, tmp_path):
    record('-o', tmp_path / 'x', command=mpirun(mpi_program))
    check_calls(tmp_path / 'x')


LIBRARY = '''
int cublasGemmEx(long a, long b, long c, long d, long e, long f, void* g, void* h, long i, long j, void* k, long l, long m,
                 void* n, void* o, long p, long q, long r, long s) {
  return a == 1 && b == 2 && f == 6 && g == 0 && m == 13 && s == 19 ? 42 : 7;
}
int cudnnBackendExecute(long a, long b, long c) { return a + b + c; }
'''
CALLER = '''
#include <stdio.h>
int cublasGemmEx(long, long, long, long, long, long, void*, void*, long, long, void*, long, long, void*, void*, long, long,
                 long, long);
int cudnnBackendExecute(long, long, long);
int main() {
  for (int i = 0; i < 3; ++i) printf("%d ", cublasGemmEx(1, 2, 3, 4, 5, 6, 0, 0, 9, 10, 0, 12, 13, 0, 0, 16, 17, 18, 19));
  printf("%d", cudnnBackendExecute(1, 2, 3));
  return 0;
}
'''


def test_calls_of_cublas_and_cudnn_are_ranges(tmp_path):
    if shutil.which('cc') is None:
        pytest.skip('not installed: cc')
    for name, text in (('library.c', LIBRARY), ('caller.c', CALLER)):
        (tmp_path / name).write_text(text)
    subprocess.run(['cc', '-shared', '-fPIC', '-o', 'libblas.so', 'library.c'], cwd=tmp_path, check=True, timeout=60)
    subprocess.run(['cc', '-o', 'caller', 'caller.c', './libblas.so'], cwd=tmp_path, check=True, timeout=60)
    r = record('-o', tmp_path / 'x', '--preload', command=[tmp_path / 'caller'], cwd=tmp_path)
    assert r.stdout == '42 42 42 6', 'arguments and results pass through'
    (p,) = processes(tmp_path / 'x').values()
    ranges = [e['name'] for e in p['range_event'] if e['op'] == 1]
    assert ranges == ['cublasGemmEx'] * 3 + ['cudnnBackendExecute']
    query = subprocess.run([PROGRAM, 'query', '--format', 'csv', tmp_path / 'x',
                            'select name, kind, count(*) from host group by 1 order by 1'], env=environment(),
                           capture_output=True, text=True, timeout=60).stdout.splitlines()
    assert query[1:] == ['cublasGemmEx,library,3', 'cudnnBackendExecute,library,1']


TRAINING = '''
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(STEPS):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
'''


def test_operators_and_system_in_one_command(tmp_path):
    pytest.importorskip('torch')
    r = record('-o', tmp_path / 'x', '--torch-steps', '4', command=[sys.executable, '-c', TRAINING.replace('STEPS', '12')])
    (trace,) = files(tmp_path / 'x', '.pt.trace.json.gz')
    (recording,) = processes(tmp_path / 'x')
    assert trace.removesuffix('.pt.trace.json.gz') == recording.removesuffix('.pgt')
    assert 'traced no step' not in r.stderr and not [n for n in files(tmp_path / 'x', '') if 'partial' in n]
    (rank,) = report_of(tmp_path / 'x')['ranks']
    numbers = [s['index'] for s in rank['steps']]
    assert set(range(3)) <= set(numbers) and set(range(3, 7)) <= set(numbers) and numbers == sorted(numbers)
    assert {o['name']: o['calls'] for o in rank['ops']}['aten::linear'] == 4
    assert rank['threads']


def test_a_program_too_short_for_its_steps_says_so(tmp_path):
    pytest.importorskip('torch')
    record('-o', tmp_path / 'x', '--torch-steps', '4', command=[sys.executable, '-c', TRAINING.replace('STEPS', '2')])
    problems = document(tmp_path / 'x')['recording']['problems']
    assert [p for p in problems if "PyTorch's profiler traced no step" in p and '2 steps were seen' in p], problems
    assert files(tmp_path / 'x', '.json.gz') == []


OWN_STEPS = '''
import ctypes, time, profgpu
cuda = ctypes.CDLL('libcuda.so.1', mode=ctypes.RTLD_GLOBAL)
cuda.cuInit(0)
for i in range(10):
    with profgpu.step(700 + i), profgpu.phase('forward'):
        time.sleep(0.01)
'''


def test_steps_that_a_program_marks_itself_open_the_window(tmp_path):
    env = environment(CUDA_SIM='driver=12000', PYTHONPATH=os.path.join(ROOT, 'python'), PROFGPU_LIBRARY=os.environ['PROFGPU_LIBRARY'])
    r = record('-o', tmp_path / 'x', '--steps', '3:6', env=env, command=[sys.executable, '-c', OWN_STEPS])
    (process,) = processes(tmp_path / 'x').values()
    opened, closed = sorted(row['time_ns'] for row in process['window'])
    pushed = sorted(row['time_ns'] for row in process['range_event'] if (row['name'] or '').startswith('ProfilerStep#'))
    assert pushed[2] < opened < pushed[3] and pushed[5] < closed < pushed[6]
    assert document(tmp_path / 'x')['recording']['steps'] == 10 and '10 steps' in r.stderr


FORKED = TRAINING.replace('STEPS', '12').replace('import torch', 'import os, torch\ntorch.set_num_threads(1)', 1)


def test_operators_of_forked_ranks(tmp_path):
    pytest.importorskip('torch')
    script = 'import os, torch\nranks = []\nfor rank in range(2):\n    ranks.append(os.fork())\n    if ranks[-1] == 0:\n' \
             '        os.environ["RANK"] = str(rank)\n        break\n' \
             f'if ranks[-1] == 0:\n    exec({FORKED!r})\n    os._exit(0)\nfor pid in ranks:\n    os.waitpid(pid, 0)\n'
    r = record('-o', tmp_path / 'x', '--torch-steps', '4', command=[sys.executable, '-c', script])
    traces = files(tmp_path / 'x', '.pt.trace.json.gz')
    assert len(traces) == 2 and "PyTorch's profiler" not in r.stderr
    assert {trace.removesuffix('.pt.trace.json.gz') for trace in traces} <= {name.removesuffix('.pgt') for name in processes(tmp_path / 'x')}


def test_steps_that_other_libraries_mark_are_not_the_reason(tmp_path):
    script = 'import ctypes, os\nlib = ctypes.CDLL(os.environ["PROFGPU_INJECT"])\nlib.profgpu_start(b"test")\n' \
             'for i in range(9): lib.profgpu_step(ctypes.c_long(i))\n'
    record('-o', tmp_path / 'x', '--torch-steps', '4', command=[sys.executable, '-c', script])
    problems = document(tmp_path / 'x')['recording']['problems']
    assert [p for p in problems if 'wrote no trace, although a process had 9 steps' in p], problems


@pytest.mark.parametrize('words', [('--torch-steps', '0'), ('--torch-steps', '3', '--no-python-hook')])
def test_wrong_options(words, tmp_path):
    record('-o', tmp_path / 'x', *words, code=2)
