"""The recorder in a process that ends, forks, closes, floods or starves: the process must not notice, and what was
written must be readable. Real processes; no GPU is behind any of it."""
import collections
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from recorded import BUILD, LIBRARY, Recording, counts, need

SUBJECT = os.path.join(BUILD, 'inject-subject')
DISK_FULL, NAMES_FULL = 2, 4
PUSH, POP, MARK, STEP = 1, 2, 5, 6


def environment(folder, options='', **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith('PROFGPU_')
           and k not in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'LD_PRELOAD')}
    if folder is not None:
        env['PROFGPU_RECORD'] = str(folder)
    env.update(PROFGPU_RECORD_OPTIONS=options, **more)
    return env


def subject(folder, *words, options='', code=0, before=None, **more):
    need(SUBJECT, LIBRARY, os.path.join(BUILD, 'pgt-dump'))
    result = subprocess.run([SUBJECT, LIBRARY, *map(str, words)], env=environment(folder, options, **more), timeout=60,
                            stdin=subprocess.DEVNULL, capture_output=True, preexec_fn=before)
    assert result.stderr == b'', result.stderr
    assert result.returncode == code
    return result.stdout


def start(folder, *words, options='', **more):
    need(SUBJECT, LIBRARY, os.path.join(BUILD, 'pgt-dump'))
    return subprocess.Popen([SUBJECT, LIBRARY, *map(str, words)], env=environment(folder, options, **more),
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def recordings(folder):
    return [Recording(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.endswith('.pgt')]


def recording(folder):
    found = recordings(folder)
    assert len(found) == 1
    return found[0]


def events(recorded, op):
    return [row for row in recorded['range_event'] if row['op'] == op]


def check_order(recorded):
    """Every thread's times go up, and what is pushed is popped."""
    last, depth = {}, collections.Counter()
    for row in recorded['range_event']:
        assert row['time_ns'] >= last.get(row['tid'], 0)
        last[row['tid']] = row['time_ns']
        depth[row['tid']] += {PUSH: 1, POP: -1}.get(row['op'], 0)
        assert depth[row['tid']] >= 0
    assert not +depth


@pytest.mark.parametrize('way', ['plain', 'quick_exit', 'destructors', 'close_library'])
def test_an_orderly_end_loses_nothing(tmp_path, way):
    subject(tmp_path, way, 1000)
    recorded = recording(tmp_path)
    assert recorded.ended and recorded.dropped() == 0
    expected = 4 if way == 'close_library' else 1000
    assert len(events(recorded, PUSH)) == len(events(recorded, POP)) == expected
    check_order(recorded)
    assert len(recorded['clock_sync']) >= 1
    properties = recorded.properties
    assert properties['exe'] == os.path.realpath(SUBJECT) and properties['recorded_by'] == 'test'
    assert properties['command'].endswith(f'{LIBRARY} {way} 1000')
    assert int(properties['pid']) == recorded['range_event'][0]['pid']
    assert abs(int(properties['started_unix_ns']) / 1e9 - time.time()) < 60


def test_leaving_at_once_loses_at_most_a_flush_interval(tmp_path):
    subject(tmp_path, 'late_exit', 5000)
    recorded = recording(tmp_path)
    assert not recorded.ended and len(events(recorded, PUSH)) == 5000
    subject(tmp_path / 'none', '_exit', 5000, code=0)   # the folder is not there
    (tmp_path / 'other').mkdir()
    subject(tmp_path / 'other', '_exit', 5000)
    assert len(recordings(tmp_path / 'other')) == 1     # readable, with whatever came so far


def steps_of(folder):
    return [row['payload'] for r in recordings(folder) for row in events(r, STEP)]


def wait_for(is_so):
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize('number', [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_killed_at_random_moments(tmp_path, number):
    seed = random.randrange(1 << 30)
    moments = random.Random(seed)
    for i in range(8):
        folder = tmp_path / str(i)
        folder.mkdir()
        process = start(folder, 'for_ever', options='flush_ms=100')
        if i % 2:   # at any moment, before the first flush too; or when a flush has just been
            time.sleep(moments.uniform(0.01, 0.6))
        else:
            wait_for(lambda: steps_of(folder))
        flushed = steps_of(folder)
        process.send_signal(number)
        process.communicate(timeout=60)
        assert process.returncode == -number
        steps = steps_of(folder)
        assert steps == list(range(len(steps))) and steps[:len(flushed)] == flushed, seed


def test_forked_while_all_threads_record(tmp_path):
    subject(tmp_path, 'fork_busy', 40)
    found = recordings(tmp_path)
    assert len(found) == 1 + 20, 'a child writes a file if it uses the recorder'
    parent = max(found, key=lambda r: len(r['range_event']))
    assert parent.ended and len(parent['thread']) >= 4
    for child in found:
        if child is parent:
            continue
        assert child.ended and child.properties['ppid'] == parent.properties['pid']
        assert [row['op'] for row in child['range_event']] == [PUSH, POP] * 3
        assert {row['name'] for row in events(child, PUSH)} == {'work'}
        assert {row['pid'] for row in child['range_event']} == {int(child.properties['pid'])}


def test_generations(tmp_path):
    subject(tmp_path, 'grandchildren')
    found = recordings(tmp_path)
    assert len(found) == 4 and all(r.ended for r in found)
    assert sorted(len(events(r, PUSH)) for r in found) == [1] * 4


def test_a_child_that_no_handler_hears_of(tmp_path):
    subject(tmp_path, 'bare_clone', options='flush_ms=20')
    found = recordings(tmp_path)
    assert sorted(len(events(r, PUSH)) for r in found) == [2, 5]


def test_vfork_and_exec(tmp_path):
    subject(tmp_path, 'vfork_exec')
    assert sorted(len(events(r, PUSH)) for r in recordings(tmp_path)) == [3, 4]


def test_exec_under_the_same_number(tmp_path):
    subject(tmp_path, 'exec_same_pid')
    names = sorted(name for name in os.listdir(tmp_path) if name.endswith('.pgt'))
    assert len(names) == 2 and any(name.endswith('-2.pgt') for name in names)
    assert sorted((len(events(r, PUSH)), r.ended) for r in recordings(tmp_path)) == [(2, False), (3, True)]


def test_threads_that_end(tmp_path):
    subject(tmp_path, 'small_threads', 300)
    recorded = recording(tmp_path)
    assert len(events(recorded, PUSH)) == 600
    assert {row['name'] for row in recorded['thread']} >= {f'small-{i}' for i in range(300)}
    check_order(recorded)


def test_a_daemon(tmp_path):
    subject(tmp_path, 'daemon')
    wait_for(lambda: any(r.ended for r in recordings(tmp_path)))
    found = {len(events(r, PUSH)): r for r in recordings(tmp_path)}
    assert found[7].ended


def test_all_descriptors_closed_and_taken_again(tmp_path):
    victim = tmp_path / 'victim'
    folder = tmp_path / 'recording'
    folder.mkdir()
    subject(folder, 'close_all', options='flush_ms=20', VICTIM=str(victim))
    assert victim.read_bytes() == b'', "the program's file was written to"
    recorded = recording(folder)
    assert recorded.ended
    # The four in between may be lost: no descriptor could be had.
    assert len(events(recorded, PUSH)) + (recorded.dropped(DISK_FULL) + 1) // 2 == 14
    assert len(events(recorded, PUSH)) >= 10


def test_no_descriptors(tmp_path):
    subject(tmp_path, 'no_descriptors', options='flush_ms=20')
    assert len(events(recording(tmp_path), PUSH)) == 7


def test_file_limit_does_not_kill(tmp_path):
    subject(tmp_path, 'file_limit', 300_000, options='flush_ms=20')
    path, = tmp_path.glob('*.pgt')
    assert 100_000 < path.stat().st_size <= 300_000
    recorded = Recording(path)
    assert recorded['read'][0]['torn_bytes'] == 0, 'half a chunk was left'
    assert 0 < len(events(recorded, MARK)) < 200_000


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / 'disk'
    folder.mkdir()
    mount = ['mount', '-t', 'tmpfs', '-o', 'size=400k', 'tmpfs', str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip('a small disk cannot be mounted here')
    yield folder
    subprocess.run(['umount', '-l', str(folder)], check=True)


def test_full_disk(small_disk):
    ballast = small_disk / 'ballast'
    ballast.write_bytes(b'x' * 150_000)
    process = start(small_disk, 'disk_fills', 100_000, options='flush_ms=10')
    assert process.stdout.readline() == b'full\n'
    ballast.unlink()
    time.sleep(0.1)
    process.communicate(b'go\n', timeout=60)
    assert process.returncode == 0
    recorded = recording(small_disk)
    marks = events(recorded, MARK)
    read = recorded['read'][0]
    assert read['torn_bytes'] == read['damaged_places'] == 0 and recorded.ended, 'half a chunk was left'
    assert marks[-1]['name'] == 'after' and all(row['name'] for row in marks)
    assert recorded.dropped(DISK_FULL) > 0 and len(marks) + recorded.dropped(DISK_FULL) == 100_001


def test_a_disk_that_is_full_from_the_start(small_disk):
    with open(small_disk / 'ballast', 'wb') as f:
        try:
            f.write(b'x' * 500_000)
        except OSError:
            pass
    subject(small_disk, 'plain', 10)


def test_a_disk_that_stays_full(small_disk):
    process = start(small_disk, 'disk_fills', 100_000, options='flush_ms=10')
    assert process.stdout.readline() == b'full\n'
    with pytest.raises(OSError), open(small_disk / 'ballast', 'wb', buffering=0) as f:
        while True:
            f.write(b'x' * 16)
    process.communicate(b'go\n', timeout=60)
    recorded = recording(small_disk)
    assert process.returncode == 0 and recorded['read'][0]['torn_bytes'] == 0
    said = len(events(recorded, MARK)) + recorded.dropped(DISK_FULL)  # a drop may still fit into the file's last page
    assert recorded.ended == (said == 100_001)


def test_folders_that_cannot_be_written(tmp_path):
    blocked = tmp_path / 'file'
    blocked.write_text('')
    for folder in (tmp_path / 'missing', blocked, '/proc', 'relative', '/' + 'x' * 5000):
        subject(folder, 'plain', 10)
    assert sorted(os.listdir(tmp_path)) == ['file']


def test_a_folder_that_is_removed(tmp_path):
    folder = tmp_path / 'gone'
    folder.mkdir()
    process = start(folder, 'for_ever', options='flush_ms=20')
    for _ in range(100):
        process.stdout.readline()
    time.sleep(0.1)
    subprocess.run(['rm', '-rf', str(folder)], check=True)
    seen = b''
    deadline = time.monotonic() + 60
    while int(seen or 0) <= 15_000 and time.monotonic() < deadline:
        seen = process.stdout.readline()
    process.kill()
    process.communicate()
    assert int(seen) > 15_000, 'more than a pipe holds: the process went on'
    assert not folder.exists()


def test_many_processes_at_once(tmp_path):
    running = [start(tmp_path, 'plain', 500 + i, RANK=str(i), WORLD_SIZE='64') for i in range(64)]
    for process in running:
        process.communicate(timeout=60)
        assert process.returncode == 0
    found = recordings(tmp_path)
    assert sorted(len(events(r, PUSH)) for r in found) == list(range(500, 564))
    assert all(r.ended and f"-rank{r.properties['rank']}-" in r.path for r in found)


def test_odd_names(tmp_path):
    subject(tmp_path, 'odd_names')
    names = [row['name'] for row in events(recording(tmp_path), MARK)]
    assert names[0] == 'x' * (32 << 10) and names[2] is None and names[3] is None
    assert ' not UTF-8 ' in names[1] and names[4] == 'a "quote"\nand\ttabs\\'


def test_more_names_than_there_is_room_for(tmp_path):
    """Memory stays bounded, and what has no name any more is counted."""
    need(SUBJECT)
    code = ('import resource,subprocess,sys;subprocess.run(sys.argv[1:],check=True);'
            'print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)')
    result = subprocess.run([sys.executable, '-c', code, SUBJECT, LIBRARY, 'many_names', '400000'], timeout=120,
                            env=environment(tmp_path, 'memory_mb=128'), capture_output=True, check=True)
    recorded = recording(tmp_path)
    marks = events(recorded, MARK)
    full = [row['count'] for row in recorded['drop'] if row['reason'] == NAMES_FULL]
    named = [int(row['name'][5:]) for row in marks if row['name'] is not None]
    assert sum(full) >= 130_000 and named == sorted(named) and named[0] == 0
    lost = sum(row['count'] for row in recorded['drop'] if row['of'] == 25)
    assert len(marks) + lost == 400_000
    assert int(result.stdout) < 128 << 10, 'KiB resident'


def test_overflow_is_counted(tmp_path):
    subject(tmp_path, 'flood', 4_000_000, code=0)
    path, = tmp_path.glob('*.pgt')
    rows, dropped = counts(path)
    assert rows['range_event'] + dropped == 4_000_000
    assert rows['range_event'] > 1 << 16, 'what there is room for at a time'


def test_signal_handlers_call_in(tmp_path):
    said = subject(tmp_path, 'in_handlers', 1000)
    recorded = recording(tmp_path)
    handled = [row for row in events(recorded, MARK) if row['name'] == 'handler']
    assert len(handled) + recorded.dropped() >= int(said) and len(handled) > 0
    assert recorded.ended


def test_errno_is_kept(tmp_path):
    subject(tmp_path, 'keep_errno')
    subject(None, 'keep_errno')
    subject('/proc', 'keep_errno')


def test_signals_descriptors_and_threads(tmp_path):
    subject(tmp_path, 'leave_no_mark', 1)
    subject(None, 'leave_no_mark', 0)
    subject('/proc/nothing', 'leave_no_mark', 0)
    subject('', 'leave_no_mark', 0)


def test_identity_can_be_changed(tmp_path):
    subject(tmp_path, 'change_identity')


def test_a_cut_limit_of_address_space(tmp_path):
    import resource
    for megabytes in (60, 120, 200, 400):
        limit = megabytes << 20
        subject(tmp_path, 'plain', 10, before=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert all(r.ended for r in recordings(tmp_path)) and recordings(tmp_path)


def test_options_that_are_not_understood(tmp_path):
    options = 'flush_ms=x,what=1,,window=steps:9:3,nvtx=2,memory_mb=-1,graphs=all,' + 'y' * 4000
    subject(tmp_path, 'plain', 3, options=options)
    recorded = recording(tmp_path)
    assert len(events(recorded, PUSH)) == 3
    text, = recorded.notes
    assert 'invalid: flush_ms=x, what=1, window=steps:9:3, nvtx=2' in text


def test_preloaded_into_everything(tmp_path):
    """Under LD_PRELOAD with nothing asked for, programs run as without."""
    need(LIBRARY)
    env = dict(environment(None), LD_PRELOAD=LIBRARY)
    for command in (['true'], ['sh', '-c', 'sh -c true & wait'], [sys.executable, '-c', 'import threading, ctypes']):
        result = subprocess.run(command, env=env, capture_output=True, timeout=60)
        assert (result.returncode, result.stdout, result.stderr) == (0, b'', b'')
    subprocess.run(['ls'], env=dict(env, PROFGPU_RECORD=str(tmp_path)), check=True, stdout=subprocess.DEVNULL)
    assert os.listdir(tmp_path) == []


def test_from_python(tmp_path):
    need(LIBRARY)
    code = f'''
import ctypes, os, threading
lib = ctypes.CDLL({LIBRARY!r})
assert lib.profgpu_start(b"python") == 1 and lib.profgpu_start(b"python") == 1 and lib.profgpu_start(b"hook") == 1
def work():
    for i in range(100):
        lib.profgpu_push(b"forward"); lib.profgpu_pop()
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
lib.profgpu_property(b"torch_version", b"1"); lib.profgpu_property(b"torch_version", b"2")
pid = os.fork()
if pid == 0:
    lib.profgpu_mark(b"child"); os._exit(0)
os.waitpid(pid, 0)
'''
    subprocess.run([sys.executable, '-c', code], env=environment(tmp_path), check=True, timeout=60)
    parent, = [r for r in recordings(tmp_path) if r.ended]
    assert len(events(parent, PUSH)) == len(events(parent, POP)) == 800
    assert parent.properties['recorded_by'] == 'python hook' and parent.properties['torch_version'] == '2'
    check_order(parent)
