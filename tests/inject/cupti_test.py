"""What is recorded of a simulated device, through stand-ins for CUPTI of three ages: count by count against what the
program says that it did. No GPU and no CUPTI of NVIDIA's is behind any of it."""
import collections
import os
import random
import signal
import subprocess
import time

import pytest
from recorded import BUILD, CUPTI, CUPTI_DROPPED, LIBRARY, STUBS, Recording, counts, environment, need, run
from gpu_check import recording_file

EVERYTHING = ['--kernels', 3000, '--names', 7, '--streams', 3, '--copies', 40, '--copy-bytes', 123456, '--peer-copies', 5,
              '--sets', 11, '--set-bytes', 4097, '--syncs', 6, '--allocations', 9, '--hot-calls', 50, '--overheads', 4,
              '--graphs', 3, '--graph-nodes', 4, '--failures', 2, '--devices', 2]
EVERY = pytest.mark.parametrize('cupti', sorted(CUPTI))


def check_everything(recording, truth, graphs_whole=False):
    kernels = [k for k in recording['kernel'] if k['graph'] == 0]
    assert collections.Counter(k['name'] for k in kernels) == {k: v for k, v in truth['by_name'].items() if v}
    assert sum(k['duration_ns'] for k in kernels) == truth['kernel_ns']
    in_graphs = [k for k in recording['kernel'] if k['graph'] != 0]
    assert len(in_graphs) == (0 if graphs_whole else truth['graph_kernels'])
    assert len(recording['graph_launch']) == (truth['graphs'] if graphs_whole else 0)
    peers = [c for c in recording['copy'] if c['copy_kind'] == 10]
    plain = [c for c in recording['copy'] if c['copy_kind'] != 10]
    assert (len(peers), len(plain)) == (truth['peer_copies'], truth['copies'])
    assert sum(c['bytes'] for c in plain) == truth['copy_bytes']
    assert all(c['peer'] == 2 for c in peers) and all(c['peer'] == 0 for c in plain)
    assert len(recording['set']) == truth['sets'] and sum(s['bytes'] for s in recording['set']) == truth['set_bytes']
    assert all(s['value'] == 0xab for s in recording['set'])
    assert len(recording['sync']) == truth['syncs'] and len(recording['overhead']) == truth['overheads']
    taken = [a for a in recording['allocation'] if not a['is_free']]
    assert len(taken) == truth['allocations'] and sum(a['bytes'] for a in taken) == truth['allocated_bytes']
    assert sorted(a['address'] for a in taken) == sorted(a['address'] for a in recording['allocation'] if a['is_free'])
    assert recording.dropped() == 0
    check_calls(recording, truth)


def check_calls(recording, truth):
    calls = recording.calls()
    launches = truth['runtime_launches'] + truth['failures']
    assert calls['cudaLaunchKernel'] == launches and calls['cuLaunchKernel'] == launches + truth['driver_launches']
    assert calls['cudaGraphLaunch'] == calls['cuGraphLaunch'] == truth['graphs']
    assert calls['cudaMalloc'] == truth['allocations'] and calls['cudaFree'] == truth['frees']
    assert 'cudaGetDevice' not in calls, 'calls that programs make all the time are left out'
    assert sum(1 for c in recording['call'] if c['result'] == 1) == 2 * truth['failures']
    # The kernel's number of the thread, so that calls can be joined with ranges.
    assert {c['tid'] for c in recording['call']} == {truth['pid']}
    of_call = {c['correlation'] for c in recording['call']}
    assert all(k['correlation'] in of_call for k in recording['kernel'])


@EVERY
def test_all_shapes_are_read_alike(tmp_path, cupti):
    result = run(tmp_path, *EVERYTHING, cupti=cupti)
    recording = result.recording
    check_everything(recording, result.truth)
    assert result.returncode == 0 and recording.ended and not recording.notes
    assert [d['name'] for d in recording['device']] == ['Simulated GPU'] * 1
    assert recording['device'][0]['pci'] == '00000000:10:00.0' and recording['device'][0]['multiprocessors'] == 108
    assert recording['device'][0]['uuid'] == 'GPU-00010203-0405-0607-0809-0a0b0c0d0e0f'
    assert recording.properties['cupti_version'] == {11: '18', 12: '23', 13: '130001'}[cupti]
    assert recording.properties['cupti_path'].endswith(CUPTI[cupti])
    assert recording.properties['driver_version'] == f'{cupti}.0'


@EVERY
def test_shapes_and_queues_of_kernels(tmp_path, cupti):
    recording = run(tmp_path, '--kernels', 30, '--names', 3, '--streams', 2, cupti=cupti).recording
    shapes = {s['id']: s for s in recording['launch_shape']}
    for k in recording['kernel']:
        n, shape = int(k['name'][-6:-3]), shapes[k['shape']]
        assert (shape['grid_x'], shape['grid_y'], shape['block_x']) == (n + 1, 2, 128)
        assert (shape['registers'], shape['static_shared_bytes']) == (32 + n, 1024)
        assert k['context'] == 1 and k['stream'] in (7, 8)


def test_a_short_program_s_device_is_known(tmp_path):
    for i in range(40):   # it may end before our thread has looked at it
        recording = run(tmp_path / str(i), '--kernels', 10, options='flush_ms=10000').recording
        assert [d['name'] for d in recording['device']] == ['Simulated GPU'] and recording.ended, i


@EVERY
def test_graphs_as_a_whole(tmp_path, cupti):
    result = run(tmp_path, *EVERYTHING, cupti=cupti, options='graphs=graph')
    check_everything(result.recording, result.truth, graphs_whole=True)


@EVERY
def test_launches_through_the_driver(tmp_path, cupti):
    result = run(tmp_path, '--kernels', 100, '--driver-launches', cupti=cupti)
    assert result.recording.calls()['cuLaunchKernel'] == 100 == len(result.recording['kernel'])
    assert result.recording.calls()['cudaLaunchKernel'] == 0


def test_numbers_of_frameworks(tmp_path):
    # The library is in the program's own scope, as a framework's is.
    recording = run(tmp_path, '--kernels', 10, '--external', 5, LD_PRELOAD=os.path.join(STUBS, '12', CUPTI[12])).recording
    assert sorted(e['external'] for e in recording['external_id']) == [1000, 1001, 1002, 1003, 1004]


@EVERY
def test_kinds_that_nobody_knows_are_stepped_over(tmp_path, cupti):
    result = run(tmp_path, '--kernels', 1000, cupti=cupti, sim='newer_kinds=1')
    assert len(result.recording['kernel']) == 1000 and result.recording.dropped() == 0


# --- Refusals ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('sim, says', [
    ('error_all=999', 'error 999'),
    ('error=cuptiActivityRegisterCallbacks:15', 'error 15'),
    ('error=cuptiActivityEnable:35', 'administrators only'),
    ('refuse_kind=10', 'kernels: error 27'),
    ('api=12', 'older than CUDA 11.0'),
])
def test_refusal_leaves_the_rest(tmp_path, sim, says):
    result = run(tmp_path, '--steps', 3, sim=sim)
    recording = result.recording
    assert result.returncode == 0 and result.truth['steps'] == 3
    assert any(says in note for note in recording.notes), recording.notes
    assert not recording['kernel'] and not recording['window']
    # What the program says of itself is there all the same.
    assert sum(1 for r in recording['range_event'] if r['op'] == 6) == 3


@pytest.mark.parametrize('sim', ['driverless=1', 'error=cuptiActivityEnable:35'])
def test_refusal_is_told_once(tmp_path, sim):
    """Where nothing of a device is recorded, it does not matter what else would be missing."""
    result = run(tmp_path, '--steps', 3, sim=sim)
    assert len(result.recording.notes) == 1 and 'CUPTI cannot record kernels' in result.recording.notes[0]


def test_refused_kinds_are_named_once(tmp_path):
    result = run(tmp_path, *EVERYTHING, sim='refuse_kind=49')
    assert [n for n in result.recording.notes if 'allocations' in n] == ['CUPTI does not record allocations: error 27']
    assert len(result.recording['kernel']) == 3000 + 12


def test_no_cupti(tmp_path):
    result = run(tmp_path, '--steps', 2, cupti=None, CUDA_HOME='/nonexistent')
    if result.recording['kernel']:
        pytest.skip('a libcupti is installed where the loader finds it')
    assert result.returncode == 0
    assert result.recording.notes and any('libcupti' in n or 'CUPTI' in n for n in result.recording.notes)


def test_no_device(tmp_path):
    result = run(tmp_path, sim='no_device=1')
    assert result.returncode == 1 and 'error 100' in result.stderr


def test_driver_chooses_the_major(tmp_path):
    # All three can be found by name; a CUPTI newer than the driver would not work.
    where = ':'.join([STUBS] + [os.path.join(STUBS, str(m)) for m in CUPTI])
    for driver, api in ((12050, '23'), (13000, '130001'), (11080, '18')):
        recording = run(tmp_path / str(driver), '--kernels', 10, sim=f'driver={driver}', LD_LIBRARY_PATH=where).recording
        assert recording.properties['cupti_version'] == api


def test_named_library_comes_first(tmp_path):
    recording = run(tmp_path, '--kernels', 10, cupti=12, PROFGPU_CUPTI=os.path.join(STUBS, '11', CUPTI[11])).recording
    assert recording.properties['cupti_version'] == '18' and len(recording['kernel']) == 10


def test_named_library_that_is_not_there(tmp_path):
    recording = run(tmp_path, '--kernels', 10, PROFGPU_CUPTI='/nonexistent/libcupti.so').recording
    assert any('PROFGPU_CUPTI cannot be opened' in n for n in recording.notes) and not recording['kernel']


def test_mapped_library_is_taken(tmp_path):
    # As in PyTorch: its libcupti is in the process before cuInit; the one found by name is another.
    recording = run(tmp_path, '--kernels', 10, cupti=13, LD_PRELOAD=os.path.join(STUBS, '11', CUPTI[11])).recording
    assert recording.properties['cupti_version'] == '18' and len(recording['kernel']) == 10


# --- Windows ----------------------------------------------------------------------------------------------------------

@EVERY
def test_profiler_start_and_stop(tmp_path, cupti):
    result = run(tmp_path, '--kernels', 500, '--steps', 10, '--profiler', '3:5', cupti=cupti, options='window=cudaProfilerApi')
    recording = result.recording
    assert result.truth['window_kernels'] == 120
    assert len(recording['kernel']) == 120
    assert [(w['event'], w['reason']) for w in recording['window']] == [(1, 'cudaProfilerStart'), (2, 'cudaProfilerStop')]


@EVERY
def test_subscriber_refused(tmp_path, cupti):
    result = run(tmp_path, '--kernels', 500, '--steps', 4, '--profiler', '1:2', cupti=cupti, sim='holder=nsys',
                 options='window=cudaProfilerApi')
    notes = ' '.join(result.recording.notes)
    assert 'cudaProfilerStart cannot be followed (error 39)' in notes
    assert ('CUPTI for nsys' in notes) == (cupti == 13), 'only 13.0 tells who holds it'
    assert len(result.recording['kernel']) == result.truth['kernels']


def test_steps(tmp_path):
    result = run(tmp_path, '--kernels', 0, '--steps', 10, options='window=steps:4:6')
    assert len(result.recording['kernel']) == 80
    assert [w['event'] for w in result.recording['window']] == [1, 2]


# --- Back-pressure and drops ------------------------------------------------------------------------------------------

@EVERY
def test_cupti_s_own_drops_are_counted(tmp_path, cupti):
    result = run(tmp_path, '--kernels', 3000, cupti=cupti, sim='drop_every=10')
    recording = result.recording
    rows = len(recording['kernel']) + len(recording['call']) + len(recording['sync'])
    # 3000 kernels, two calls each, and the wait at the end with its call; devices and contexts count among the dropped.
    assert abs(rows + recording.dropped(CUPTI_DROPPED) - (9000 + 2)) <= 2
    assert 890 <= recording.dropped(CUPTI_DROPPED) <= 910


@EVERY
def test_memory_is_what_cupti_holds_at_once(tmp_path, cupti):
    """However often it hands buffers out: with each flush, twenty times in this time."""
    result = run(tmp_path, '--kernels', 100_000, '--rate', 20_000, cupti=cupti)
    assert len(result.recording['kernel']) == 100_000 and result.truth['peak_kb'] < 11 * 1024, result.truth['peak_kb']


@EVERY
def test_slow_delivery_keeps_the_bound(tmp_path, cupti):
    # 1.5 million kernels make 450 MB of records, and each buffer of 1 MiB waits for 20 ms.
    result = run(tmp_path, '--kernels', 1500000, cupti=cupti, sim='slow_us=20000', options='memory_mb=64')
    rows, dropped = counts(result.paths[0])
    assert result.returncode == 0 and dropped > 0 and rows['kernel'] > 0
    # Before 12.9 it holds only as soon as our thread comes to pause what makes records: it may be waiting for what CUPTI
    # had when it was behind by a quarter of the bound. Without any bound all 450 MB would be held.
    assert result.truth['peak_kb'] / 1024 < (64 + 32 if cupti == 13 else 300)
    if cupti == 13:  # from 12.9 on a buffer may be refused: all is counted
        assert rows['kernel'] + rows['call'] + dropped >= 4_500_000
    else:  # there it may not: what makes records pauses, and the recording says so
        said = recording_file.rows(result.paths[0], 'note', 'window')
        assert any('pauses until it has caught up' in n['text'] for n in said['note'])
        assert (2, 'out of memory for records') in [(w['event'], w['reason']) for w in said['window']]


@EVERY
def test_million_kernels(tmp_path, cupti):
    result = run(tmp_path, '--kernels', 1000000, '--rate', 200000, cupti=cupti, timeout=100)
    rows, dropped = counts(result.paths[0])
    assert dropped == 0 and rows['kernel'] == 1000000 and rows['call'] == 2000001
    size = os.path.getsize(result.paths[0])
    assert size < 1000000 * 16 + 2000001 * 10


# --- Clock ------------------------------------------------------------------------------------------------------------

def test_clock_jump_is_told(tmp_path):
    result = run(tmp_path, '--kernels', 0, '--steps', 6, '--step-us', 200000, '--clock-jump-ns', 5000000000, options='flush_ms=50',
                 LD_PRELOAD=os.path.join(STUBS, '12', CUPTI[12]))
    told = [n for n in result.recording.notes if "CUPTI's clock moved" in n]
    assert len(told) == 1 and '5000.' in told[0]
    differences = [s['device_ns'] - s['unix_ns'] for s in result.recording['clock_sync'] if s['device_ns']]
    assert abs(differences[-1] - differences[0] - 5_000_000_000) < 50_000_000


# --- Another profiler -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('finalize', [0, 1])
def test_another_profiler_with_preload(tmp_path, finalize):
    result = run(tmp_path, '--kernels', 100, '--steps', 20, '--step-us', 150000, '--rival-steps', '3:5',
                 '--rival-finalize', finalize, preload=True, options='flush_ms=50')
    recording, truth = result.recording, result.truth
    # The other one has all of its own, undisturbed, and it is told when we recorded and when not.
    assert truth['rival_kernels'] == 3 * 40
    events = [(w['event'], w['reason']) for w in recording['window']]
    assert [e for e, _ in events] == [1, 2, 1]
    assert 'torch.profiler' in events[1][1] and events[2][1] == 'resumed'
    gap = recording['window'][2]['time_ns'] - recording['window'][1]['time_ns']
    assert 1.0e9 < gap < 2.5e9
    kernels = len(recording['kernel'])
    assert 100 + 3 * 40 < kernels < truth['kernels'] - 3 * 40
    assert recording.dropped() == 0
    # On our own clock again, whatever the other one left: a kernel with its ends on two clocks would be far longer than it is.
    assert all(abs(s['device_ns'] - s['unix_ns']) < 50_000_000 for s in recording['clock_sync'][-2:])
    assert max(k['duration_ns'] for k in recording['kernel']) < 50_000


def test_another_profiler_from_before_the_start(tmp_path):
    result = run(tmp_path, '--kernels', 100, '--steps', 20, '--step-us', 150000, '--rival-steps', '-2:5', preload=True,
                 options='flush_ms=50')
    assert result.truth['rival_kernels'] == 100 + 6 * 40
    assert [(w['event'], w['reason']) for w in result.recording['window']] == [(1, 'resumed')], result.recording.notes
    assert 0 < len(result.recording['kernel']) <= result.truth['kernels'] - 100 - 6 * 40


@pytest.mark.parametrize('finalize', [0, 1])
def test_another_profiler_without_preload(tmp_path, finalize):
    # It is seen by its clock alone. It keeps what it has; we say from when on we have nothing, and come back when the
    # clock is as it was.
    result = run(tmp_path, '--kernels', 100, '--steps', 24, '--step-us', 100000, '--rival-steps', '5:8',
                 '--rival-finalize', finalize, options='flush_ms=20')
    recording, truth = result.recording, result.truth
    assert truth['rival_kernels'] == 4 * 40
    events = [(w['event'], w['reason']) for w in recording['window']]
    assert events[1] == (2, 'another profiler in the process uses CUPTI')
    assert ((1, 'resumed') in events) == bool(finalize)
    assert sum('in the process uses CUPTI' in n for n in recording.notes) == 1
    kernels = len(recording['kernel'])
    assert 100 + 4 * 40 <= kernels <= truth['kernels'] - 4 * 40
    assert (kernels > 100 + 7 * 40) == bool(finalize)


def test_second_libcupti_is_told(tmp_path):
    # Another one is in the process already, and PROFGPU_CUPTI insists on its own.
    recording = run(tmp_path, '--kernels', 10, LD_PRELOAD=os.path.join(STUBS, '11', CUPTI[11]),
                    PROFGPU_CUPTI=os.path.join(STUBS, '12', CUPTI[12])).recording
    assert any('second libcupti' in n for n in recording.notes)


def test_late_libcupti_is_told(tmp_path):
    recording = run(tmp_path, '--kernels', 10, '--steps', 4, '--step-us', 100000, '--late', os.path.join(STUBS, '11', CUPTI[11]),
                    options='flush_ms=50').recording
    assert any('second libcupti' in n for n in recording.notes) and len(recording['kernel']) == 170


# --- Ends -------------------------------------------------------------------------------------------------------------

@EVERY
@pytest.mark.parametrize('end, code', [('exit', 0), ('return', 0)])
def test_end_in_order(tmp_path, cupti, end, code):
    result = run(tmp_path, '--kernels', 2000, '--end', end, cupti=cupti)
    assert result.returncode == code and result.recording.ended and len(result.recording['kernel']) == 2000


@EVERY
@pytest.mark.parametrize('end', ['_exit', 'abort', 'kill'])
def test_end_without_warning(tmp_path, cupti, end):
    # What is lost is what came since the last flush.
    result = run(tmp_path, '--kernels', 2000, '--steps', 5, '--step-us', 100000, '--end', end, cupti=cupti, options='flush_ms=50')
    assert result.returncode in (0, -signal.SIGABRT, -signal.SIGKILL)
    assert not result.recording.ended
    assert len(result.recording['kernel']) >= 2000 + 4 * 40


def test_killed_at_any_moment(tmp_path):
    random.seed(4)
    need(os.path.join(BUILD, 'cuda-sim'), LIBRARY)
    rows = 0
    for i in range(12):
        folder = tmp_path / str(i)
        folder.mkdir()
        process = subprocess.Popen([os.path.join(BUILD, 'cuda-sim'), '--kernels', '20000', '--repeat-ms', '60000', '--rate', '20000'],
                                   env=environment(folder, cupti=random.choice(list(CUPTI)), options='flush_ms=20'),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0.02, 0.4))
        process.send_signal(signal.SIGKILL)
        process.wait()
        for path in folder.glob('*.pgt'):
            rows += counts(str(path))[0]['kernel']
            assert not Recording(str(path)).ended
    assert rows > 0


@EVERY
def test_fork_after_init(tmp_path, cupti):
    result = run(tmp_path, '--kernels', 500, '--fork', 'after', cupti=cupti)
    assert len(result.paths) == 1, 'a child that does nothing with CUDA writes nothing'
    assert len(result.recording['kernel']) == 500 and result.recording.ended


@EVERY
def test_fork_before_init(tmp_path, cupti):
    result = run(tmp_path, '--kernels', 500, '--fork', 'before', cupti=cupti)
    assert len(result.paths) == 2 and [len(r['kernel']) for r in result.recordings()] == [500, 500]


def test_many_ranks(tmp_path):
    result = run(tmp_path, '--kernels', 200, '--ranks', 64, timeout=100)
    assert result.returncode == 0 and len(result.paths) == 64
    recordings = result.recordings()
    assert sorted(int(r.properties['rank']) for r in recordings) == list(range(64))
    assert all(len(r['kernel']) == 200 and r.ended for r in recordings)


def test_threads(tmp_path):
    result = run(tmp_path, '--kernels', 20000, '--threads', 4)
    recording = result.recording
    assert len(recording['kernel']) == 80000 and recording.dropped() == 0
    assert len({c['tid'] for c in recording['call']}) == 4


def test_nothing_is_written_without_being_asked(tmp_path):
    result = run(tmp_path, '--kernels', 100, PROFGPU_RECORD='')
    assert result.returncode == 0 and not result.paths and not os.listdir(tmp_path)


def test_cuda_can_be_left_out(tmp_path):
    recording = run(tmp_path, '--steps', 2, options='cuda=0').recording
    assert not recording['kernel'] and recording['range_event']
