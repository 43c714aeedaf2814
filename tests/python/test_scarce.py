"""Commands where the machine gives little: a full disk, limits on files, memory and descriptors, folders that are read-only or gone, closed streams,
no /proc, another user, calls that are interrupted.

Whatever is lacking, a command ends with a documented code and a word about it; under a file's name is the old file or the whole new one, and
nothing else stays.
"""
import contextlib
import csv
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

from conftest import ROOT, program
from exporter_page import REPLAY, STUB, Exporter

CODES = (0, 1, 2, 3)
NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason='needs root')


def parse_json(path):
    json.loads(path.read_text())


def parse_page(path):
    assert path.read_text().rstrip().endswith('</html>')


def parse_sqlite(path):
    with contextlib.closing(sqlite3.connect(f'file:{path}?mode=ro', uri=True)) as db:
        assert db.execute('pragma integrity_check').fetchone() == ('ok',)


def parse_rows(path):
    """A log: what is there are whole rows."""
    text = path.read_text()
    assert not text or text.endswith('\n')
    for line in text.splitlines():
        json.loads(line)


def parse_csv(path):
    with open(path, newline='') as file:
        assert len({len(row) for row in csv.reader(file, strict=True)}) == 1


def parse_bytes(path):
    assert path.stat().st_size > 0


# name: (words, the file's ending, how it is read). FILE is the trace, OUT what is written.
WRITERS = {
    'document': (('analyze', '--json', '-o', 'OUT', 'FILE'), '.json', parse_json),
    'page': (('analyze', '--html', 'OUT', 'FILE'), '.html', parse_page),
    'sqlite': (('export', 'FILE', '--to', 'sqlite', '-o', 'OUT'), '.sqlite', parse_sqlite),
    'chrome': (('export', 'FILE', '--to', 'chrome', '-o', 'OUT'), '.json', parse_json),
    'perfetto': (('export', 'FILE', '--to', 'perfetto', '-o', 'OUT'), '.pftrace', parse_bytes),
    'csv': (('export', 'FILE', '--to', 'csv', '--table', 'activity', '-o', 'OUT'), '.csv', parse_csv),
    'merge': (('merge', 'FILE', '-o', 'OUT'), '.pftrace', parse_bytes),
    'history': (('baseline', '--file', 'OUT', 'save', 'main', 'FILE'), '.sqlite', parse_sqlite),
    'log': (('log', '--backend', REPLAY + ',speed=max', '-i', '0.02', '--count', '30', '-o', 'OUT'), '.jsonl', parse_rows),
    'monitor': (('monitor', '--backend', REPLAY + ',speed=100', '-i', '0.05', '-o', 'OUT'), '.jsonl', parse_rows),
}
READERS = {
    'report': ('analyze', 'FILE'), 'query': ('query', 'FILE', 'select count(*) from kernels'), 'diff': ('diff', 'FILE', 'FILE'), 'stdout': ('export', 'FILE', '--to', 'csv', '--table', 'kernels_by_name', '-o', '-'),
    'stat': ('stat', '--backend', REPLAY), 'devices': ('devices', '--backend', REPLAY), 'top': ('top', '--once', '--backend', REPLAY), 'doctor': ('doctor',),
    'pick': ('pick', '--backend', REPLAY), 'run': ('run', '--backend', REPLAY, '--', 'true'), 'help': ('help', 'analyze'), 'formats': ('formats',), 'wrong': ('nonsense',),
}


@pytest.fixture(scope='module')
def trace(simulate):
    return simulate('--steps', '10')


def words_of(words, trace, out=None):
    return [program('PROFGPU', 'profgpu'), *(str({'OUT': out, 'FILE': trace}.get(word, word)) for word in words)]


def ended(words, seconds=60, codes=CODES, **more):
    """It ends with a documented code, and an error is said."""
    r = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, **more)
    assert r.returncode in codes, (words[1:], r.returncode, r.stderr)
    assert r.returncode == 0 or r.stderr, words[1:]
    r.stderr.decode()
    return r


def check_file(name, path):
    """The old file, or a whole one; nothing else in its folder."""
    ending, parse = WRITERS[name][1:]
    if path.exists() and path.read_bytes() != b'the old file':
        parse(path)
    own = {path.name, path.name + '-journal'} if ending == '.sqlite' else {path.name}
    assert set(os.listdir(path.parent)) <= own, os.listdir(path.parent)


@pytest.fixture
def place(tmp_path):
    """place(name) -> a path in a folder of its own, where the old file is unless the command goes on with what it finds."""
    def made(name, folder=None):
        folder = folder or tmp_path / name
        folder.mkdir(exist_ok=True)
        path = folder / ('out' + WRITERS[name][1])
        if name not in ('history', 'log', 'monitor'):
            path.write_bytes(b'the old file')
        return path
    return made


# Files may have so many bytes.

@pytest.mark.parametrize('bytes_', [0, 1, 4096, 20_000])
@pytest.mark.parametrize('name', WRITERS)
def test_a_limit_on_the_size_of_files(name, bytes_, trace, place):
    path = place(name)
    r = ended(words_of(WRITERS[name][0], trace, path), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_)))
    check_file(name, path)
    if r.returncode:
        assert b'too large' in r.stderr or b'full' in r.stderr or b'cannot' in r.stderr, r.stderr


def test_the_signal_of_that_limit_is_the_command_s_own():
    """What we run dies of it as it would without us."""
    limit = dict(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    state = 'grep -E "^Sig(Ign|Cgt)" /proc/self/status'
    plain = ended(['sh', '-c', state], **limit).stdout
    assert ended([program('PROFGPU', 'profgpu'), 'run', '-q', '--backend', 'none', '--', 'sh', '-c', state], **limit).stdout == plain


# The disk is full.

@pytest.fixture
def small_disk(tmp_path):
    """small_disk(bytes) -> a folder on a disk with so much room"""
    folders = []

    def made(size, options=''):
        folder = tmp_path / f'disk{len(folders)}'
        folder.mkdir()
        if subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size}{options}', 'tmpfs', str(folder)], capture_output=True).returncode:
            pytest.skip('a small disk cannot be mounted here')
        folders.append(folder)
        return folder

    yield made
    for folder in folders:
        subprocess.run(['umount', '-l', str(folder)], check=True)


@pytest.mark.parametrize('name', WRITERS)
def test_a_full_disk(name, trace, place, small_disk):
    path = place(name, small_disk(16 << 10))
    r = ended(words_of(WRITERS[name][0], trace, path))
    check_file(name, path)
    assert r.returncode == 1 or name == 'monitor', r.stderr
    assert b'space' in r.stderr or b'full' in r.stderr, r.stderr


@pytest.mark.parametrize('name', WRITERS)
def test_a_disk_that_is_read_only(name, trace, place, small_disk):
    path = place(name, small_disk('1m'))
    subprocess.run(['mount', '-o', 'remount,ro', str(path.parent)], check=True)
    r = ended(words_of(WRITERS[name][0], trace, path))
    check_file(name, path)
    assert r.returncode == 1 and r.stderr.count(b'\n') <= 3, r.stderr


@pytest.mark.parametrize('name', WRITERS)
def test_no_room_for_one_more_file(name, trace, place, small_disk):
    path = place(name, small_disk('1m', ',nr_inodes=2'))
    assert ended(words_of(WRITERS[name][0], trace, path)).returncode in (0, 1)
    check_file(name, path)


# Folders that are not there.

@pytest.mark.parametrize('name', WRITERS)
def test_a_folder_that_is_gone(name, trace, tmp_path):
    gone = tmp_path / 'gone'
    gone.mkdir()
    for out in ('out' + WRITERS[name][1], gone / ('out' + WRITERS[name][1])):
        gone.mkdir(exist_ok=True)
        # Its own folder vanishes before it starts.
        r = ended(['sh', '-c', 'rmdir "$PWD"; exec "$@"', 'sh', *words_of(WRITERS[name][0], trace, out)], cwd=gone)
        assert r.returncode == 1 and r.stderr.count(b'\n') <= 3, r.stderr
        assert not gone.exists()


@pytest.mark.parametrize('name', READERS)
def test_in_a_folder_that_is_gone(name, trace, tmp_path):
    gone = tmp_path / 'gone'
    gone.mkdir()
    ended(['sh', '-c', 'rmdir "$PWD"; exec "$@"', 'sh', *words_of(READERS[name], trace)], cwd=gone)


# Another user, to whom nothing here belongs.

@AS_ROOT
@pytest.mark.parametrize('name', [*WRITERS, *READERS])
def test_another_user(name, trace, place, tmp_path):
    if not os.access(program('PROFGPU', 'profgpu'), os.X_OK):
        pytest.skip('others may not run the program here')
    open_to_all = tmp_path
    while open_to_all != open_to_all.parent and open_to_all.stat().st_uid == os.geteuid() and open_to_all.name != 'tmp':
        open_to_all.chmod(0o755)
        open_to_all = open_to_all.parent
    seen = tmp_path / 'seen.json'
    shutil.copy(trace, seen)
    path = place(name) if name in WRITERS else None
    words = words_of(WRITERS[name][0] if path else READERS[name], seen, path)
    r = ended(words, user=NOBODY, group=NOBODY, extra_groups=[], cwd='/')
    if path:
        check_file(name, path)
        assert r.returncode == 1 and b'ermission denied' in r.stderr or b'cannot' in r.stderr, r.stderr
    seen.chmod(0)
    if str(seen) in words:
        assert b'ermission denied' in ended(words, user=NOBODY, group=NOBODY, extra_groups=[], cwd='/').stderr


# Few descriptors, little memory, no threads.

@pytest.mark.parametrize('count', [4, 6, 10, 16])
@pytest.mark.parametrize('name', [*WRITERS, *READERS])
def test_few_descriptors(name, count, trace, place):
    path = place(name) if name in WRITERS else None
    r = ended(words_of(WRITERS[name][0] if path else READERS[name], trace, path), codes=(*CODES, 126, 127) if name == 'run' else CODES,
              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count)))
    if path:
        check_file(name, path)
    assert r.returncode != 2 or name == 'wrong'


@pytest.mark.parametrize('megabytes', [48, 64, 96, 200, 2048])
@pytest.mark.parametrize('name', [*WRITERS, *READERS])
def test_little_address_space(name, megabytes, trace, place):
    path = place(name) if name in WRITERS else None
    limit = megabytes << 20
    r = ended(words_of(WRITERS[name][0] if path else READERS[name], trace, path), codes=(*CODES, 126, 127) if name == 'run' or megabytes < 64 else CODES,
              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    if path:
        check_file(name, path)
    if megabytes == 2048:
        assert r.returncode == (2 if name == 'wrong' else r.returncode if name == 'doctor' else 0), r.stderr


@AS_ROOT
@pytest.mark.parametrize('name', ['report', 'document', 'page', 'log', 'monitor', 'stat', 'top', 'run', 'merge'])
def test_no_threads(name, trace, tmp_path):
    """A user may have one process only. Files go where that user may write."""
    out = tmp_path / 'out'
    folder = tmp_path
    while folder.name != 'tmp' and folder != folder.parent and folder.stat().st_uid == 0:
        folder.chmod(0o755)
        folder = folder.parent
    out.mkdir()
    os.chown(out, 12345, 12345)
    seen = tmp_path / 'seen.json'
    shutil.copy(trace, seen)
    path = out / ('out' + WRITERS[name][1]) if name in WRITERS else None
    r = ended(words_of(WRITERS[name][0] if path else READERS[name], seen, path), codes=(*CODES, 126), user=12345, group=12345, extra_groups=[], cwd='/',
              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)))
    if path:
        check_file(name, path)
    assert r.returncode != 2


# Closed standard streams.

@pytest.mark.parametrize('closed', [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize('name', [*WRITERS, *READERS])
def test_closed_streams(name, closed, trace, place):
    path = place(name) if name in WRITERS else None
    read, write = os.pipe()

    def close():
        for fd in range(3):
            if fd in closed:
                os.close(fd)
            else:
                os.dup2(write if fd else os.open('/dev/null', os.O_RDONLY), fd)

    process = subprocess.Popen(words_of(WRITERS[name][0] if path else READERS[name], trace, path), preexec_fn=close)
    os.close(write)
    with open(read, 'rb') as both:
        both.read()
    assert process.wait(timeout=60) in CODES
    if path:
        check_file(name, path)
        # What it printed did not get into the file, and the file was written where it needs no stream.
        assert path.read_bytes() != b'the old file'
        WRITERS[name][2](path)


# No /proc, nor /sys.

@AS_ROOT
@pytest.mark.parametrize('name', [*WRITERS, *READERS])
def test_no_proc(name, trace, place):
    path = place(name) if name in WRITERS else None
    words = words_of(WRITERS[name][0] if path else READERS[name], trace, path)
    hidden = ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs none /proc && mount -t tmpfs none /sys && exec "$@"', 'sh']
    if subprocess.run([*hidden, 'true'], capture_output=True).returncode:
        pytest.skip('/proc cannot be hidden here')
    r = ended([*hidden, *words])
    if path:
        check_file(name, path)
    assert r.returncode == (2 if name == 'wrong' else r.returncode if name == 'doctor' else 0), r.stderr


# Interrupted calls.

# System calls, and which of them are interrupted: from the first that the loader does not make on, with gaps for the next try.
INTERRUPTED = {'read': '6+2', 'pread64': '3+2', **dict.fromkeys(
    ('write', 'pwrite64', 'writev', 'poll', 'ppoll', 'pselect6', 'epoll_wait', 'epoll_pwait', 'clock_nanosleep', 'wait4', 'waitid', 'fdatasync', 'fsync', 'ftruncate',
     'accept4', 'connect', 'recvmsg', 'recvfrom', 'sendmsg', 'sendto', 'flock', 'rt_sigtimedwait'), '1+2')}


@pytest.mark.skipif(not shutil.which('strace'), reason='strace is not installed')
@pytest.mark.parametrize('name', [*WRITERS, *READERS])
def test_calls_that_are_interrupted(name, trace, place, tmp_path):
    """Every second call that may be interrupted is."""
    path = place(name) if name in WRITERS else None
    words = words_of(WRITERS[name][0] if path else READERS[name], trace, path)
    r = ended(['strace', '-f', '-qq', '-o', '/dev/null', '-e', 'trace=none', *(f'-einject={call}:error=EINTR:when={when}' for call, when in INTERRUPTED.items()), *words])
    whole = ended(words_of(WRITERS[name][0] if path else READERS[name], trace, place(name, tmp_path / 'whole') if path else None))
    assert r.returncode == whole.returncode, r.stderr
    if path:
        check_file(name, path)
        if name not in ('log', 'monitor'):
            assert path.read_bytes() != b'the old file'
    elif name in ('report', 'query', 'diff', 'stdout', 'help', 'formats', 'wrong'):
        assert r.stdout == whole.stdout


@pytest.mark.parametrize('name', ['log', 'monitor', 'page', 'sqlite', 'report'])
def test_stopped_and_continued_all_the_time(name, trace, place):
    """SIGSTOP and SIGCONT, as job control and freezers send them."""
    path = place(name) if name in WRITERS else None
    process = subprocess.Popen(words_of(WRITERS[name][0] if path else READERS[name], trace, path), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    source = random.Random(name)
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        process.send_signal(signal.SIGSTOP)
        time.sleep(source.random() * 0.002)
        process.send_signal(signal.SIGCONT)
        time.sleep(source.random() * 0.004)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    if path:
        check_file(name, path)


def test_an_exporter_that_is_stopped_and_continued():
    e = Exporter('--backend', REPLAY).wait_ready()
    try:
        for _ in range(100):
            e.process.send_signal(signal.SIGSTOP)
            time.sleep(0.002)
            e.process.send_signal(signal.SIGCONT)
            assert e.get('/metrics')[0] == 200
        assert e.end()[0] == 0
    finally:
        e.kill()


# Recording with little.

SIM = os.path.join(os.path.dirname(program('PROFGPU', 'profgpu')), 'cuda-sim')


@pytest.mark.parametrize('lack', ['descriptors', 'memory', 'file size', 'full disk', 'closed streams', 'no proc'])
def test_a_recorded_command_does_not_notice(lack, tmp_path, small_disk):
    """Its output and exit code are its own, whatever the recorder lacks."""
    if not os.path.exists(SIM):
        pytest.skip('cuda-sim is not built')
    from test_record import environment
    folder, before = tmp_path / 'x', None
    words = [program('PROFGPU', 'profgpu'), 'run', '-q', '--trace', '--backend', 'none', '-o', str(folder), '--', 'sh', '-c', f'{SIM} --kernels 2000 > /dev/null; echo out; exit 7']
    if lack == 'descriptors':
        def before():
            resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
    elif lack == 'memory':
        def before():
            resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
    elif lack == 'file size':
        def before():
            resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
    elif lack == 'full disk':
        words[words.index(str(folder))] = str(small_disk(64 << 10) / 'x')
    elif lack == 'no proc':
        if os.geteuid() != 0:
            pytest.skip('needs root')
        words = ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs none /proc && exec "$@"', 'sh', *words]
    elif lack == 'closed streams':
        def before():
            os.close(0)
            os.close(2)
    r = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, env=environment(), preexec_fn=before)
    assert (r.returncode, r.stdout) == (7, b'out\n'), (r.returncode, r.stdout, r.stderr)
