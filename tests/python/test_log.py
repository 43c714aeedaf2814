"""profgpu log: what it writes, and that it survives what ends a log: signals, kill -9, full disks, readers that leave."""
import csv
import fcntl
import json
import os
import pty
import re
import resource
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

from conftest import ROOT, program

REPLAY = os.path.join(ROOT, 'examples', 'replay.jsonl')
LOOP = f'replay:{REPLAY},loop'
FAST = f'replay:{REPLAY},speed=max'


@pytest.fixture
def log(profgpu):
    """log(*options) -> CompletedProcess with text; from the replay at full speed unless --backend is given."""

    def run(*words, **more):
        words = [str(w) for w in words]
        backend = [] if '--backend' in words else ['--backend', FAST]
        return profgpu('log', *backend, *words, text=True, **more)

    return run


@pytest.fixture
def started():
    """started(*options) -> a running `profgpu log`; killed at the end of the test."""
    running = []

    def run(*words, **more):
        more.setdefault('stderr', subprocess.PIPE)
        more.setdefault('stdout', subprocess.PIPE)
        running.append(subprocess.Popen([program('PROFGPU', 'profgpu'), 'log', *map(str, words)], text=True, **more))
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.communicate()


def table(text):
    return list(csv.DictReader(text.splitlines()))


def wait_for(path, size):
    end = time.monotonic() + 60
    while not (os.path.exists(path) and os.path.getsize(path) >= size):
        assert time.monotonic() < end, f'{path} does not grow'
        time.sleep(0.01)


def test_csv_is_our_sample_file(log, profgpu, tmp_path):
    result = log('-i', '0.01', '--count', 5)
    assert result.returncode == 0 and result.stderr == ''
    rows = table(result.stdout)
    assert len(rows) == 10
    assert list(rows[0])[:4] == ['time_ns', 'device', 'name', 'uuid']
    assert {r['device'] for r in rows} == {'0', '1'}
    assert rows[0]['utilization_pct'] == '14' and rows[0]['memory_total_bytes'] == str(81559 << 20)
    assert rows[0]['fan_speed_pct'] == ''   # the log has none
    assert abs(int(rows[0]['time_ns']) / 1e9 - time.time()) < 60
    path = tmp_path / 'gpu.csv'
    path.write_text(result.stdout)
    document = json.loads(profgpu('analyze', '--json', path).stdout)
    assert document['inputs'][0]['format'] == 'samples' and document['inputs'][0]['events'] == 10


def test_no_cell_is_empty_for_want_of_asking(stage, tmp_path):
    """At ten rows a second temperature and clocks, which the sampler reads in turns, are asked for at each tick, too. The
    buffers are finer than the ticks: one as coarse as they are has no new value for a tick that comes early."""
    from test_devices import STUB, clean_environment
    if not os.path.exists(STUB):
        pytest.skip(f'the stand-in library is not built: {STUB}')
    env = clean_environment(PROFGPU_NVML_LIBRARY=STUB, PROFGPU_NVML_SCENARIO=stage(
        'driver 550.54.15\ndevice 0\nutilization 50\nring utilization off\nring power 0.02\n'))
    words = [program('PROFGPU', 'profgpu'), 'log', '-i', '0.1', '--count', '4']
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == ''
    rows = table(done.stdout)
    assert len(rows) == 4
    for name in ('utilization_pct', 'memory_used_bytes', 'power_w', 'temperature_c', 'sm_clock_mhz', 'performance_state'):
        assert all(row[name] for row in rows), name


def test_all_columns_of_dmon_are_filled(stage):
    """Rates need two looks: the first row comes with the second."""
    from test_devices import STUB, clean_environment
    if not os.path.exists(STUB):
        pytest.skip(f'the stand-in library is not built: {STUB}')
    env = clean_environment(PROFGPU_NVML_LIBRARY=STUB, PROFGPU_NVML_SCENARIO=stage(
        'driver 550.54.15\ndevice 0..1\npcie_rx count 0 1000000\npcie_tx count 0 1000000\n'))
    words = [program('PROFGPU', 'profgpu'), 'nvidia-smi', 'dmon', '-s', 'pucvmet', '-d', '0.1', '-c', '2', '--format', 'csv']
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)
    rows = table(done.stdout)
    assert done.returncode == 0 and len(rows) == 4 and len(rows[0]) == 21
    assert [name for row in rows for name, cell in row.items() if not cell] == []
    assert all(0 <= float(row['throttle_power_pct']) <= 100 for row in rows), 'of each interval'


def test_a_lost_device_has_rows_without_values(stage, profgpu, tmp_path):
    from test_devices import STUB, clean_environment
    if not os.path.exists(STUB):
        pytest.skip(f'the stand-in library is not built: {STUB}')
    env = clean_environment(PROFGPU_NVML_LIBRARY=STUB, PROFGPU_NVML_SCENARIO=stage(
        'driver 550.54.15\ndevice 0\nutilization 97\npower 650\nprocess 4711 C memory=1000000000 sm=90\nlost 0.6\n'))
    words = [program('PROFGPU', 'profgpu'), 'log', '-i', '0.1', '--count', '15', '--query']
    done = subprocess.run([*words, 'timestamp,index,utilization.gpu,power.draw'], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and 'GPU is lost' in done.stderr
    cells = [[cell.strip() for cell in row[2:]] for row in csv.reader(done.stdout.splitlines()[1:])]
    assert len(cells) == 15
    answered = next(i for i, row in enumerate(cells) if row == ['', ''])
    assert answered > 1 and all(row[0] for row in cells[:answered]) and all(row == ['', ''] for row in cells[answered:])
    rows = [json.loads(line) for line in subprocess.run(
        [program('PROFGPU', 'profgpu'), 'log', '-i', '0.1', '--count', '15', '--format', 'json'], env=env, capture_output=True, text=True,
        timeout=60).stdout.splitlines()]
    lost = [row for row in rows if 'utilization_pct' not in row and 'power_w' not in row]
    assert len(lost) > 3 and not any(row.get('processes') for row in lost), 'no process is on a device that is lost'


def test_repeats_are_counted(log, tmp_path):
    """With --query a metric without a new value keeps its last one, and a message says so."""
    path = tmp_path / 'short.jsonl'
    path.write_text(''.join(json.dumps({'time_ns': 10**18 + i * 10**8, 'device': 0, 'name': 'GPU', 'uuid': 'u', 'power_w': 100 + i,
                                        **({'temperature_c': 40} if i % 4 == 0 else {})}) + '\n' for i in range(8)))
    done = log('-i', '0.1', '--query', 'index,power_w,temperature_c', '--backend', f'replay:{path},speed=max')
    rows = table(done.stdout)
    assert {row['temperature_c'] for row in rows} == {'40'}
    said = re.search(r'values repeated because the device had no newer one: temperature_c \((\d+) of (\d+) rows\); '
                     r'the field age_s shows how old', done.stderr)
    assert said and int(said[2]) == len(rows) and 0 < int(said[1]) < len(rows), done.stderr
    assert log('-i', '0.1', '--query', 'index,power_w', '--backend', f'replay:{path},speed=max').stderr == ''


def test_json_lines(log, tmp_path):
    path = tmp_path / 'gpu.jsonl'
    result = log('-i', '0.002', '--count', 10, '-o', path)
    assert result.returncode == 0 and result.stdout == ''
    assert result.stderr == f'20 rows were written to {path}\nNext: profgpu analyze {path}\n'
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 20
    assert rows[0]['name'].endswith('(synthetic)') and rows[0]['processes'][0]['pid'] == 48211
    assert 'name' not in rows[2] and 'fan_speed_pct' not in rows[2]


def test_a_replay_ends_the_log(log):
    rows = table(log('-i', '0.001', '--device', 1).stdout)
    assert len(rows) == 301 and {r['device'] for r in rows} == {'1'}
    energy = [float(r['energy_j']) for r in rows]
    assert energy == sorted(energy)


def test_the_replay_of_a_log_is_that_log(log, tmp_path):
    first, second = tmp_path / 'a.jsonl', tmp_path / 'b.jsonl'
    log('-i', '0.001', '-o', first, '--query', 'utilization_pct,energy_j')
    log('-i', '0.001', '-o', second, '--query', 'utilization_pct,energy_j', '--backend', f'replay:{first},speed=max')
    a, b = ([(r['device'], r.get('utilization_pct'), r.get('energy_j')) for r in map(json.loads, p.read_text().splitlines())]
            for p in (first, second))
    assert len(a) == 602 and a == b


def test_nvidia_smis_names(log, profgpu, tmp_path):
    fields = 'timestamp,index,name,pci.bus_id,utilization.gpu,memory.used,power.draw,pstate,temperature.gpu,' \
             'clocks_throttle_reasons.active'
    bare, with_units, none = (log('--count', 1, '--query', fields, *more).stdout for more in ([], ['--units'], ['--no-units']))
    assert bare.splitlines()[0] == 'timestamp,index,name,pci.bus_id,utilization.gpu [%],memory.used [MiB],power.draw [W],' \
                                   'pstate,temperature.gpu,clocks_throttle_reasons.active'
    assert none.splitlines()[0] == fields
    rest = 'NVIDIA H100 80GB HBM3 (synthetic),00000000:19:00.0,14{},1126{},128.22{},P0,34,0x0000000000000000'
    for text, units in ((bare, ('', '', '')), (none, ('', '', '')), (with_units, (' %', ' MiB', ' W'))):
        row = text.splitlines()[1]
        assert re.match(r'\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}, ?0, ?', row)
        assert row.replace(', ', ',').split(',', 2)[2] == rest.format(*units)
        assert (', ' in row) == (text is with_units)   # nvidia-smi's csv
        path = tmp_path / 'smi.csv'
        path.write_text(text)
        assert json.loads(profgpu('analyze', '--json', path).stdout)['inputs'][0]['events'] == 2


def test_nvidia_smis_way_to_write_values(profgpu, tmp_path):
    log = tmp_path / 'log.jsonl'
    log.write_text(json.dumps({'time_ns': 1800000000000000000, 'device': 0, 'name': 'X', 'pci_bus_id': '00000000:1a:00.0',
                               'memory_used_bytes': 32362.9 * 2**20, 'power_w': 627.4, 'throttle_power_ns': 1500.0,
                               'remapped_rows_failed': 0, 'clock_event_reasons': 0x24}) + '\n')
    fields = ['memory.used', 'power.draw', 'clocks_event_reasons_counters.sw_power_cap', 'remapped_rows.failure', 'fan.speed',
              'clocks_event_reasons.sw_power_cap', 'clocks_throttle_reasons.hw_slowdown', 'count', 'pci.bus']
    r = profgpu('log', '--backend', f'replay:{log}', '--count', '1', '--format', 'csv', '--units', '--query', ','.join(fields), text=True)
    head, row = r.stdout.splitlines()
    assert head.split(', ')[:2] == ['memory.used [MiB]', 'power.draw [W]']
    assert row.split(', ') == ['32362 MiB', '627.40 W', '2 us', 'No', '[N/A]', 'Active', 'Not Active', '1', '0x1A']


def test_a_torn_first_row_is_no_log(log, tmp_path):
    for name in ('a.jsonl', 'a.csv'):
        whole = log('--count', 1, '-o', tmp_path / ('whole' + name))
        assert whole.returncode == 0
        text = (tmp_path / ('whole' + name)).read_text()
        for cut in (1, 7, 40):
            (tmp_path / name).write_text(text[:cut])
            again = log('--count', 1, '-o', tmp_path / name)
            assert again.returncode == 0, again.stderr
            lines = (tmp_path / name).read_text().splitlines()
            assert len(lines) == len(text.splitlines()) and lines[0][:8] == text[:8]
    (tmp_path / 'notes.jsonl').write_text('{"mine": 1}')
    assert log('--count', 1, '-o', tmp_path / 'notes.jsonl').returncode == 1


def waiting_bytes(pipe):
    """What was written into it and not yet read."""
    return struct.unpack('i', fcntl.ioctl(pipe, termios.FIONREAD, b'\0' * 4))[0]


def test_only_what_works_is_suggested(log, tmp_path):
    assert 'Next: profgpu analyze' not in log('--count', 1, '--query', 'power.draw', '-o', tmp_path / 'a.csv').stderr
    assert 'Next: profgpu analyze' in log('--count', 1, '--query', 'timestamp,power.draw', '-o', tmp_path / 'b.csv').stderr


@pytest.mark.parametrize('style, pattern', [('iso', r'"?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"?'), ('epoch', r'\d+\.\d{6}'),
                                            ('nvidia-smi', r'"?\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}"?')])
def test_timestamps(log, style, pattern):
    text = log('--count', 1, '--timestamps', style).stdout
    assert text.startswith('timestamp,device,') and re.match(pattern + ',', text.splitlines()[1])
    line = log('--count', 1, '--timestamps', style, '--format', 'json').stdout.splitlines()[0]
    assert re.match(r'\{"timestamp":' + pattern + ',', line) and json.loads(line)['device'] == 0


def test_table_is_for_people(log, started):
    text = log('--count', 2, '-i', '0.01', '--format', 'table').stdout
    assert len(text.splitlines()) == 5 and '1.10 GiB' in text and '14 %' in text and 'memory used' in text
    rows = text.splitlines()[1:]
    assert all(re.match(r'\d\d:\d\d:\d\d\.\d  ', row) and len(row) <= 80 for row in rows), rows
    dated = log('--count', 1, '--format', 'table', '--timestamps', 'iso').stdout.splitlines()[1]
    assert re.match(r'\d{4}-\d\d-\d\dT', dated), dated
    ours, theirs = pty.openpty()
    process = started('--backend', FAST, '--count', 1, stdout=theirs)
    assert process.wait(timeout=60) == 0
    assert b'1.10 GiB' in os.read(ours, 65536)   # the default on a terminal
    os.close(ours), os.close(theirs)


def test_a_narrow_screen_says_first_what_it_leaves_out(started):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 40, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != 'COLUMNS'}
    process = started('--backend', FAST, '--count', 1, stdout=theirs, stderr=theirs, env={**environment, 'COLUMNS': '40'})
    assert process.wait(timeout=60) == 0
    lines = os.read(ours, 65536).decode().splitlines()
    os.close(ours), os.close(theirs)
    heading = next(i for i, line in enumerate(lines) if line.lstrip().startswith('time'))
    assert lines[0].startswith('profgpu: log: no room for') and all(len(line) <= 40 for line in lines[:heading + 1]), lines


def test_help_query_lists_every_field(log):
    text = log('--help-query').stdout
    names = [line.split()[0] for line in text.splitlines()[1:] if line and not line.startswith('Next')]
    assert {'time_ns', 'utilization_pct', 'energy_j', 'recovery_action', 'all'} <= set(names)
    assert 'memory.used' in text and 'clocks_throttle_reasons.active' in text
    assert log('--count', 1, '--query', ','.join(names)).returncode == 0


@pytest.mark.parametrize('words, says', [
    (['-i', '0'], '1ms'), (['-i', '-1'], '1ms'), (['-i', '1us'], '1ms'), (['-i', 'often'], '"often"'),
    (['-i', '0.0005'], '1ms'), (['-i', ''], '""'),
    (['--query', 'utilisation.gpu'], 'did you mean utilization.gpu?'), (['--query', 'index,,name'], 'an empty field name'),
    (['--query', 'processes'], 'processes'),
    (['--count', '0'], 'at least 1'), (['--count', '2.5x'], '2.5x'), (['--duration', '0'], 'at least 1ms'),
    (['--rotate', '1MB'], 'needs a file'), (['--rotate', '10', '-o', 'x.csv'], 'at least 4096 bytes'), (['--keep', '2'], '--rotate'),
    (['-o', 'x.txt'], 'x.txt'), (['-o', 'x.csv', '--format', 'table'], 'screen'), (['--backend', 'none'], 'nothing'),
    (['--units', '--no-units'], 'cannot be combined'), (['--format', 'json', '--units'], 'number'), (['--timestamps', 'roman'], 'roman'),
])
def test_usage_errors(log, words, says):
    result = log(*words)
    assert result.returncode == 2 and says in result.stderr and result.stdout == ''


def test_no_device(log):
    environment = {**os.environ, 'PATH': '/nowhere', 'PROFGPU_SYSFS_ROOT': '/nowhere'}
    result = log('--backend', 'auto', env=environment)
    if result.returncode == 0:
        pytest.skip('this machine has a GPU')
    assert result.returncode == 1 and 'no GPU found' in result.stderr and 'profgpu doctor' in result.stderr
    result = log('--backend', f'replay:{REPLAY},speed=max', '--device', '7')
    assert result.returncode == 1 and '"7"' in result.stderr and 'H100' in result.stderr


def test_a_damaged_replay_says_so(log, tmp_path):
    path = tmp_path / 'bad.jsonl'
    path.write_bytes(os.urandom(5000))
    result = log('--backend', f'replay:{path}')
    assert result.returncode == 1 and str(path) in result.stderr and result.stderr.count('\n') <= 2
    result = log('--backend', f'replay:{REPLAY},speed=0')
    assert result.returncode in (1, 2) and 'speed' in result.stderr


def test_text_of_a_driver_is_harmless(log, tmp_path):
    path = tmp_path / 'hostile.jsonl'
    row = {'time_ns': 1800000000000000000, 'device': 0, 'name': 'GPU \x9b31m\x1b[2J', 'uuid': '=1+1', 'utilization_pct': 5}
    path.write_text(json.dumps(row) + '\n' + json.dumps({**row, 'time_ns': row['time_ns'] + 10**8}) + '\n')
    result = log('--backend', f'replay:{path},speed=max', '--count', 1, '--format', 'csv')
    assert result.returncode == 0 and not any(c in result.stdout for c in '\x9b\x1b')
    assert table(result.stdout)[0]['uuid'] == "'=1+1"


def test_what_exists_is_appended_to(log, tmp_path):
    path = tmp_path / 'gpu.csv'
    for _ in range(2):
        assert log('-o', path, '-i', '0.01', '--count', 2).returncode == 0
    lines = path.read_text().splitlines()
    assert len(lines) == 9 and sum(line.startswith('time_ns,') for line in lines) == 1
    before = path.read_bytes()
    result = log('-o', path, '--query', 'time_ns,device,power_w', '--count', 1)
    assert result.returncode == 1 and 'other columns' in result.stderr
    assert path.read_bytes() == before
    notes = tmp_path / 'notes.csv'
    notes.write_text('Monday: nothing\n')
    assert 'not a log' in log('-o', notes, '--count', 1).stderr
    assert notes.read_text() == 'Monday: nothing\n'


def test_a_torn_line_is_ended_before_rows_go_on(log, profgpu, tmp_path):
    for name in ('gpu.csv', 'gpu.jsonl'):
        path = tmp_path / name
        log('-o', path, '-i', '0.01', '--count', 2)
        os.truncate(path, path.stat().st_size - 7)
        log('-o', path, '-i', '0.01', '--count', 2)
        document = json.loads(profgpu('analyze', '--json', path).stdout)
        assert document['inputs'][0]['events'] == 7
        assert [i['count'] for i in document['inputs'][0]['issues'] if i['kind'] == 'damaged'] == [1]


def test_rotation(log, tmp_path):
    path = tmp_path / 'gpu.csv'
    result = log('-i', '0.001', '-o', path, '--rotate', '16KiB', '--keep', 3)
    assert result.returncode == 0
    assert sorted(os.listdir(tmp_path)) == ['gpu.csv', 'gpu.csv.1', 'gpu.csv.2', 'gpu.csv.3']
    times = []
    for name in ('gpu.csv.3', 'gpu.csv.2', 'gpu.csv.1', 'gpu.csv'):
        text = (tmp_path / name).read_text()
        assert len(text) <= 16384 and text.endswith('\n')
        times += [int(r['time_ns']) for r in table(text)]
    assert times == sorted(times) and len(times) > 150


def test_rotated_json_files_stand_alone(log, tmp_path):
    path = tmp_path / 'gpu.jsonl'
    log('-i', '0.001', '-o', path, '--rotate', '32KiB')
    pieces = [p for p in tmp_path.iterdir()]
    assert len(pieces) > 5
    total = 0
    for piece in pieces:
        rows = [json.loads(line) for line in piece.read_text().splitlines()]
        total += len(rows)
        assert all('uuid' in next(r for r in rows if r['device'] == d) for d in {r['device'] for r in rows})
    assert total == 602


def test_ctrl_c_is_the_normal_end(started, tmp_path):
    path = tmp_path / 'gpu.csv'
    for stop in (signal.SIGINT, signal.SIGTERM):
        process = started('--backend', LOOP, '-i', '0.02', '-o', path)
        wait_for(path, (path.stat().st_size if path.exists() else 0) + 2000)
        process.send_signal(stop)
        _, message = process.communicate(timeout=60)
        assert process.returncode == 0
        assert re.search(rf'\d+ rows were written to {path}\nNext: profgpu analyze', message)
    assert path.read_text().endswith('\n')


@pytest.mark.parametrize('stop, code', [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_the_end_that_was_asked_for(started, tmp_path, stop, code):
    path = tmp_path / 'gpu.csv'
    process = started('--backend', LOOP, '-i', '0.02', '--duration', '1h', '-o', path)
    wait_for(path, 2000)
    process.send_signal(stop)
    process.communicate(timeout=60)
    assert process.returncode == code


def test_duration(log):
    begin = time.monotonic()
    rows = table(log('--backend', LOOP, '-i', '100ms', '--duration', '650ms').stdout)
    seconds = time.monotonic() - begin
    assert 0.6 < seconds < 60
    assert 4 <= len(rows) <= 2 * (seconds / 0.2 + 2)   # of two devices; the replay has a row every 200 ms


def test_kill_9_leaves_whole_rows(started, profgpu, tmp_path):
    path = tmp_path / 'gpu.jsonl'
    for round_ in range(5):
        process = started('--backend', f'replay:{REPLAY},loop,speed=max', '-i', '1ms', '-o', path)
        wait_for(path, (path.stat().st_size if path.exists() else 0) + 20000 + 777 * round_)
        process.kill()
        process.wait()
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_full_device(log):
    result = log('-o', '/dev/full', '--format', 'csv')
    assert result.returncode == 1 and '/dev/full' in result.stderr and 'No space left' in result.stderr
    with open('/dev/full', 'wb') as full:
        result = log('--format', 'json', stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 1 and '0 rows were written' in result.stderr and result.stderr.count('\n') == 2


def test_a_disk_that_fills_up_leaves_whole_rows(log, profgpu, tmp_path):
    """RLIMIT_FSIZE, with its signal ignored, cuts a write as a full disk does."""
    path = tmp_path / 'gpu.csv'

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))

    result = log('-i', '0.001', '-o', path, preexec_fn=limit)
    assert result.returncode == 1
    rows = table(path.read_text())
    assert path.read_text().endswith('\n') and len(rows) > 20
    assert f'{len(rows)} rows were written' in result.stderr


def test_a_reader_that_leaves(started):
    process = started('--backend', LOOP, '-i', '5ms', '--format', 'json')
    assert json.loads(process.stdout.readline())['device'] == 0
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr.read() == ''


def test_a_reader_that_sleeps_does_not_hold_ctrl_c_up(started):
    process = started('--backend', f'replay:{REPLAY},loop,speed=max', '-i', '1ms', '--query', 'all')
    end = time.monotonic() + 60
    while waiting_bytes(process.stdout) < 60_000:   # the pipe is full
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0


def test_the_example_is_what_its_script_makes(tmp_path):
    path = tmp_path / 'replay.jsonl'
    subprocess.run([sys.executable, os.path.join(ROOT, 'scripts', 'make-replay'), path], check=True)
    assert path.read_bytes() == open(REPLAY, 'rb').read()
    rows = [r for r in map(json.loads, path.read_text().splitlines()) if r.get('device') == 0]
    drawn = sum(r['power_w'] * 0.2 for r in rows[1:])
    assert abs(rows[-1]['energy_j'] - rows[0]['energy_j'] - drawn) < 1
