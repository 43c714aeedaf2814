"""stat, pick, devices and doctor: against the stand-in NVML library, with a /proc of our own, and with no GPU at all."""
import json
import os
import signal
import subprocess
import threading
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.abspath(os.environ.get('PROFGPU') or os.path.join(ROOT, 'build', 'release', 'profgpu'))
STUB = os.environ.get('NVML_STUB') or os.path.join(os.path.dirname(PROGRAM), 'tests', 'stubs', 'libnvidia-ml.so.1')
SCENARIOS = os.path.join(ROOT, 'tests', 'stubs', 'nvml', 'scenarios')

# Four devices: a slow link and hot, lost from the start, hanging soon, with bad memory and a program on it.
BAD = '''driver 550.54.15
cuda 12040
device 0..3
name NVIDIA H100 80GB HBM3
device 0
pcie_width 8
pcie_gen 5
utilization 90
reasons 0x48
device 1
lost 0
device 2
hang any 0.1
device 3
remapped_pending 1
ecc_uncorrected 3
power_limit 400
process {pid} C memory=1000000000 sm=10
'''


def clean_environment(**more):
    """Without what would change the answers on a machine with GPUs or inside a job."""
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith(('CUDA_', 'NCCL_', 'SLURM_', 'NVIDIA_', 'PROFGPU_', 'PYTORCH_', 'HIP_', 'ROCR_'))}
    return {**kept, **{k: str(v) for k, v in more.items()}}


@pytest.fixture
def on(tmp_path):
    """on(scenario: a name or its text) -> the environment of a machine with such devices."""
    if not os.path.exists(STUB):
        pytest.skip(f'the stand-in library is not built: {STUB}')

    def environment(scenario, **more):
        path = os.path.join(SCENARIOS, scenario + '.txt')
        if '\n' in scenario:
            path = tmp_path / 'scenario.txt'
            path.write_text(scenario)
        return clean_environment(PROFGPU_NVML_LIBRARY=STUB, PROFGPU_NVML_SCENARIO=path, **more)

    return environment


@pytest.fixture
def no_gpu(tmp_path):
    empty = tmp_path / 'empty'
    empty.mkdir()
    return clean_environment(PROFGPU_NVML_LIBRARY=empty / 'none.so', PROFGPU_NVIDIA_SMI=empty / 'none',
                             PROFGPU_SYSFS_ROOT=empty, PATH=empty)


def document(result):
    assert result.returncode == 0, result.stderr.decode()
    return json.loads(result.stdout)


def test_doctor_says_one_thing_once(profgpu, no_gpu):
    text = profgpu('doctor', env=no_gpu).stdout.decode()
    first, title = text.splitlines()[:2]
    assert first == "✗ No usable GPU found; each backend's reason is below" and 'no GPU can be read' not in text
    listed = [line for line in text.split('\nBackends\n')[0].splitlines()[2:] if line.startswith(('  ! ', '  ✗ '))]
    assert f'{len(listed)} warning' in title or (not listed and 'no warnings' in title)
    assert text.count('libnvidia-ml.so.1 not found') == 0 and text.count('NVML cannot be opened') == 1
    checks = document(profgpu('doctor', '--json', env=no_gpu))['checks']
    assert [c for c in checks if c['detail'].startswith('no GPU can be read here')], 'all of it is in JSON'


def test_stat_shows_every_device(profgpu, on):
    text = profgpu('stat', env=on('two_h100')).stdout.decode()
    assert '[0] NVIDIA H100 80GB HBM3' in text and '[1] NVIDIA H100 80GB HBM3' in text
    assert '/ 700 W' in text and 'GiB' in text and 'driver 550.54.15' in text
    assert '\x1b' not in text


def test_stat_colours_only_where_asked(profgpu, on):
    assert b'\x1b[' in profgpu('stat', '--color', 'always', env=on('two_h100')).stdout
    assert b'\x1b' not in profgpu('stat', env=on('two_h100', NO_COLOR=1)).stdout


@pytest.mark.parametrize('width', [20, 50, 72, 80])
def test_stat_keeps_to_the_width(profgpu, on, width):
    for line in profgpu('stat', '--width', width, env=on('two_h100')).stdout.decode().splitlines():
        assert len(line) <= width


def test_stat_json(profgpu, on):
    stat = document(profgpu('stat', '--json', env=on('two_h100')))
    assert stat['schema'] == 'profgpu.stat.v1' and stat['backend'] == 'nvml' and stat['driver'] == '550.54.15'
    busy, idle = stat['devices']
    assert busy['state'] == idle['state'] == 'ok'
    assert busy['utilization_pct'] == 96 and idle['utilization_pct'] == 0
    assert busy['sm_active_pct'] is not None, 'rates that take two looks are there'
    assert {p['pid'] for p in busy['processes']} == {4711, 4802} and idle['processes'] == []
    for device in stat['devices']:
        absent = {a['metric'] for a in device['absent']}
        assert absent == {k for k, v in device.items() if v is None and k in absent}
        assert all(a['reason'] for a in device['absent'])
        assert 'fan_speed_pct' in absent and device['fan_speed_pct'] is None


def test_stat_of_lost_and_hung_devices(profgpu, on):
    begin = time.monotonic()
    stat = document(profgpu('stat', '--json', env=on(BAD.format(pid=999999))))
    assert time.monotonic() - begin < 30, 'what hangs, hangs for ever'
    assert [d['state'] for d in stat['devices']] == ['ok', 'error', 'not_answering', 'ok']
    assert stat['devices'][1]['message'] == 'GPU is lost'
    for device in stat['devices'][1:3]:
        assert abs(device['since_ns'] - stat['time_ns']) < 10e9
    text = profgpu('stat', env=on(BAD.format(pid=999999))).stdout.decode()
    assert 'GPU is lost' in text and '[3]' in text


def test_stat_is_fast(profgpu, on):
    def seconds():
        begin = time.monotonic()
        profgpu('stat', env=on('sixteen'))
        return time.monotonic() - begin

    assert any(seconds() < 0.5 for _ in range(30)), 'sixteen devices must not take 0.1 s each'


def test_stat_knows_the_process(profgpu, on):
    sleeper = subprocess.Popen(['sleep', '60'])
    try:
        stat = document(profgpu('stat', '--json', env=on(BAD.format(pid=sleeper.pid))))
        process, = stat['devices'][3]['processes']
        assert process['memory_bytes'] == 1_000_000_000 and process['utilization_pct'] == 10
        if process['visible_pid'] is None:
            pytest.skip('process numbers of this machine are not the host\'s: ' + process['unknown'])
        assert process['arguments'] == ['sleep', '60'] and process['command'] == 'sleep'
        assert process['host_memory_bytes'] > 0 and process['cpu_pct'] == 0
        text = profgpu('stat', '--full', '--width', 200, env=on(BAD.format(pid=sleeper.pid))).stdout.decode()
        assert f':sleep/{sleeper.pid}(' in text and 'sleep 60' in text
    finally:
        sleeper.kill()
        sleeper.wait()


def test_gpustat_json_has_gpustats_keys(profgpu, on):
    gpustat = document(profgpu('stat', '--format', 'gpustat-json', env=on('two_h100')))
    assert set(gpustat) == {'hostname', 'driver_version', 'query_time', 'gpus'}
    for gpu in gpustat['gpus']:
        assert set(gpu) == {'index', 'uuid', 'name', 'temperature.gpu', 'fan.speed', 'utilization.gpu', 'utilization.enc',
                            'utilization.dec', 'power.draw', 'enforced.power.limit', 'memory.used', 'memory.total',
                            'processes'}
    assert gpustat['gpus'][0]['power.draw'] == 690 and gpustat['gpus'][0]['memory.total'] == 81559
    for process in gpustat['gpus'][0]['processes']:
        assert set(process) == {'username', 'command', 'full_command', 'gpu_memory_usage', 'cpu_percent',
                                'cpu_memory_usage', 'pid'}
    lost = document(profgpu('stat', '--format', 'gpustat-json', env=on(BAD.format(pid=999999))))
    assert lost['gpus'][1]['name'] == '((GPU is lost))' and lost['gpus'][1]['memory.used'] is None


def read_until(process, is_so):
    """What it writes until that is so."""
    limit = threading.Timer(60, process.kill)
    limit.start()
    text = ''
    while not is_so(text):
        line = process.stdout.readline()
        assert line, f'this never came; it wrote:\n{text}'
        text += line.decode()
    limit.cancel()
    return text


def test_watch_goes_on_and_ends_with_ctrl_c(on):
    watch = subprocess.Popen([PROGRAM, 'stat', '--watch', '0.3', '--no-header'], env=on('lost'), stdout=subprocess.PIPE)
    # A device that is lost meanwhile says since when.
    text = read_until(watch, lambda text: text.count('[0] ') >= 5 and 'GPU is lost, since ' in text)
    watch.send_signal(signal.SIGINT)
    watch.communicate(timeout=60)
    assert watch.returncode == 0, text


def test_watch_ends_with_its_reader(on):
    watch = subprocess.Popen([PROGRAM, 'stat', '--watch', '0.1'], env=on('two_h100'), stdout=subprocess.PIPE)
    watch.stdout.readline()
    watch.stdout.close()
    assert watch.wait(timeout=60) == 0


def test_a_hung_device_does_not_slow_the_watch(on):
    watch = subprocess.Popen([PROGRAM, 'stat', '--watch', '0.2', '--no-header'], env=on(BAD.format(pid=999999)),
                             stdout=subprocess.PIPE)
    read_until(watch, lambda text: text.count('does not answer') >= 5)
    watch.send_signal(signal.SIGINT)
    watch.communicate(timeout=60)


@pytest.mark.parametrize('words, printed', [
    ((), '1'), (('--count', '2'), '1,0'), (('-n', '2', '--order', 'index'), '0,1'), (('--exclude', '1'), '0'),
    (('--free', '79GiB', '--max-util', '10', '--max-memory', '5%'), '1'),
    (('--format', 'env'), 'CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1'),
    (('--format', 'uuid'), 'GPU-5eed0001-0000-4000-8000-0123456789ab'),
    (('--device', '0'), '0')])
def test_pick(profgpu, on, words, printed):
    result = profgpu('pick', *words, env=on('two_h100'))
    assert result.returncode == 0 and result.stdout.decode() == printed + '\n' and result.stderr == b''


def test_pick_too_few(profgpu, on):
    begin = time.monotonic()
    result = profgpu('pick', '-n', 2, '--free', '79GiB', '--wait', '1.2s', env=on('two_h100'))
    assert 1.2 <= time.monotonic() - begin < 60
    assert result.returncode == 1 and result.stdout == b''
    assert b'free, under 79.0 GiB' in result.stderr and b'1 of 2 GPUs are free, 2 requested' in result.stderr
    result = profgpu('pick', '--max-util', 10, '-n', 2, env=on('two_h100'))
    assert result.returncode == 1 and b'utilization 96 % over 10 %' in result.stderr
    result = profgpu('pick', '--free', '1T', '--json', env=on('two_h100'))
    answer = json.loads(result.stdout)
    assert result.returncode == 1 and answer['enough'] is False and answer['picked'] == []
    assert all('under' in c['refused'] for c in answer['candidates'])


def test_pick_waits_until_there_are_enough(profgpu, on):
    # Rests from its second second on: the mean over the driver's buffer falls later.
    environment = on('driver 550.54.15\ndevice 0\nmemory_used square 60000000000 1000000000 200 0.01\n')
    result = profgpu('pick', '--free', '70GiB', '--wait', '20s', env=environment)
    assert result.returncode == 0 and result.stdout == b'0\n'


def test_pick_leaves_lost_devices_and_split_ones(profgpu, on):
    result = profgpu('pick', '-n', 4, env=on(BAD.format(pid=999999)))
    assert result.returncode == 1 and b'GPU is lost' in result.stderr
    assert profgpu('pick', '--max-util', 50, '--exclude', 2, env=on(BAD.format(pid=999999))).stdout == b'3\n'
    assert profgpu('pick', '--order', 'index', env=on('mig')).stdout.startswith(b'MIG-')
    several = profgpu('pick', '-n', 2, env=on('mig'))   # CUDA takes one instance, and nothing beside it
    assert several.returncode == 1 and b'only one MIG instance' in several.stderr and b'1 of 4 GPUs' in several.stderr


def test_pick_keeps_to_the_visible_devices(profgpu, on):
    assert profgpu('pick', env=on('two_h100', CUDA_VISIBLE_DEVICES='0')).stdout == b'0\n'
    hidden = profgpu('pick', env=on('two_h100', CUDA_VISIBLE_DEVICES=''))
    assert hidden.returncode == 1 and b'CUDA_VISIBLE_DEVICES' in hidden.stderr


def test_pick_of_amd_within_what_the_runtime_leaves(profgpu, on, tmp_path):
    log = tmp_path / 'amd.jsonl'
    log.write_text(''.join(json.dumps({'time_ns': 10**18 + t * 10**8, 'device': i, 'vendor': 'AMD', 'name': 'AMD Instinct MI300X', 'uuid': f'GPU-{i:016x}',
                                       'utilization_pct': i, 'memory_used_bytes': 10**9, 'memory_total_bytes': 2 * 10**11}) + '\n'
                           for t in range(3) for i in range(4)))

    def picked(*words, **variables):
        return profgpu('pick', '--backend', f'replay:{log}', *words, env=on('two_h100', **variables)).stdout.decode().strip()

    assert picked(ROCR_VISIBLE_DEVICES='2,3', HIP_VISIBLE_DEVICES='1') == '3'
    assert picked('-n', 2, '--format', 'env') == 'HIP_VISIBLE_DEVICES=0,1'
    assert picked('-n', 2, '--format', 'env', ROCR_VISIBLE_DEVICES='2,3') == 'ROCR_VISIBLE_DEVICES=2,3 HIP_VISIBLE_DEVICES=0,1'


def test_devices(profgpu, on):
    text = profgpu('devices', env=on('two_h100')).stdout.decode()
    assert 'NV18' in text and 'GPU-5eed0000-0000-4000-8000-0123456789ab' in text and '700 / 700 W' in text
    assert 'that many NVLinks' in text and 'SYS' not in text, 'the legend has only what appears'
    answer = document(profgpu('devices', '--json', env=on('two_h100')))
    assert answer['schema'] == 'profgpu.devices.v1' and answer['complete'] is True
    assert answer['topology'] == [['X', 'NV18'], ['NV18', 'X']]
    assert answer['devices'][0]['limits']['power_limit_max_w'] == 700
    assert answer['devices'][0]['facts']['ecc_mode'] == 'enabled'


def test_devices_place_from_sysfs(profgpu, on, tmp_path):
    folder = tmp_path / 'sys' / 'bus' / 'pci' / 'devices' / '0000:10:00.0'
    folder.mkdir(parents=True)
    (folder / 'local_cpulist').write_text('0-23,48-71\n')
    text = profgpu('devices', env=on('two_h100', PROFGPU_SYSFS_ROOT=tmp_path / 'sys')).stdout.decode()
    assert '0-23,48-71' in text


def test_doctor_finds_what_is_wrong(profgpu, on):
    begin = time.monotonic()
    answer = document(profgpu('doctor', '--json', env=on(BAD.format(pid=999999), NCCL_P2P_DISABLE=1)))
    assert time.monotonic() - begin < 60, 'what hangs, hangs for ever'
    assert answer['schema'] == 'profgpu.doctor.v1'
    assert {b['name']: b['state'] for b in answer['backends']}['nvml'] == 'works'
    assert {b['name'] for b in answer['backends']} == {'nvml', 'smi', 'amdgpu', 'intel', 'replay'}
    found = {(c['device'], c['id'], c['verdict']) for c in answer['checks']}
    assert {('0', 'pcie_link', 'warning'), ('0', 'clocks', 'warning'), ('1', 'answers', 'problem'),
            ('3', 'remapped_rows', 'problem'), ('3', 'ecc_errors', 'problem'), ('3', 'power_limit', 'warning'),
            (None, 'nccl_environment', 'warning')} <= found
    for check in answer['checks']:
        assert check['verdict'] in ('ok', 'warning', 'problem', 'unknown') and check['detail']
        assert check['hint'] or check['verdict'] in ('ok', 'unknown'), check


def test_doctor_of_a_device_that_hangs(profgpu, on):
    begin = time.monotonic()
    answer = document(profgpu('doctor', '--json', env=on('device 0..1\ndevice 1\nhang nvmlDeviceGetFieldValues 0\n')))
    assert time.monotonic() - begin < 60, 'what hangs, hangs for ever'
    answers = [c for c in answer['checks'] if c['id'] == 'answers']
    assert [c['device'] for c in answers] == ['1'] and answers[0]['detail'] == 'does not answer'


def test_doctor_strict(profgpu, on):
    assert profgpu('doctor', '--strict', env=on(BAD.format(pid=999999))).returncode == 1
    assert profgpu('doctor', env=on(BAD.format(pid=999999))).returncode == 0


def test_doctor_puts_problems_first(profgpu, on):
    text = profgpu('doctor', env=on(BAD.format(pid=999999))).stdout.decode()
    assert text.index('✗ GPU 1: GPU is lost') < text.index('! GPU 0: PCIe') < text.index('Backends') < text.index('Machine')
    assert 'GPU 0, 2–3: ECC is on' in text or 'GPU 0, 3: ECC is on' in text, 'what several say is said once'


def test_doctor_reads_the_kernel_log(profgpu, on, tmp_path):
    (tmp_path / 'kmsg').write_text('4,2,200,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n')
    answer = document(profgpu('doctor', '--json', env=on('two_h100', PROFGPU_DEV_ROOT=tmp_path)))
    xid, = [c for c in answer['checks'] if c['id'] == 'kernel_log_xid']
    assert xid['verdict'] == 'problem' and 'Xid 79 on 0000:3b:00' in xid['detail'] and 'power cycle' in xid['hint']


@pytest.mark.parametrize('code, words', [(18, 'version'), (9, 'driver'), (4, 'permission')])
def test_doctor_when_the_library_refuses(profgpu, on, code, words):
    answer = document(profgpu('doctor', '--json', env=on(f'init_error {code}\ndevice 0\n')))
    nvml, = [b for b in answer['backends'] if b['name'] == 'nvml']
    assert nvml['state'] == 'not_there' and words in nvml['detail'].lower()
    strict = profgpu('doctor', '--strict', env=on(f'init_error {code}\ndevice 0\n'))
    assert strict.returncode == 1 and b'\n1 problem' in strict.stdout and b'nvml: ' in strict.stdout


def test_doctor_when_the_library_hangs(profgpu, on):
    begin = time.monotonic()
    answer = document(profgpu('doctor', '--json', env=on('delay_us 1000000000\ndevice 0\n')))
    assert time.monotonic() - begin < 60
    assert any(c['id'] == 'backend' and c['verdict'] == 'problem' and c['detail'].startswith('nvml') for c in answer['checks'])
    nvml, = [b for b in answer['backends'] if b['name'] == 'nvml']
    assert nvml['state'] == 'not_answering'


def test_without_a_gpu(profgpu, no_gpu):
    doctor = profgpu('doctor', env=no_gpu)
    assert doctor.returncode == 0 and b'nvml' in doctor.stdout and b'No usable GPU found' in doctor.stdout
    answer = document(profgpu('doctor', '--json', env=no_gpu))
    assert all(b['state'] in ('not_there', 'not_tried') and b['detail'] for b in answer['backends'])
    for command in ('stat', 'pick', 'devices'):
        for options in ((), ('--json',)):
            result = profgpu(command, *options, env=no_gpu)
            assert result.returncode == 1 and result.stdout == b'', command
            assert b'no GPU found that profgpu can read' in result.stderr and b'profgpu doctor' in result.stderr


@pytest.mark.parametrize('words', [
    ('stat', '--watch', '0'), ('stat', '--watch', '-1'), ('stat', '--watch', 'soon'), ('stat', '--json', '--format', 'text'),
    ('stat', '--format', 'xml'), ('stat', '--width', 'x'), ('pick', '--count', '0'), ('pick', '--count', '-1'),
    ('pick', '--free', '20X'), ('pick', '--max-util', '101'), ('pick', '--max-memory', 'x'), ('pick', '--order', 'size'),
    ('pick', '--wait', 'long'), ('devices', 'x'), ('doctor', '--backend', 'nvlm'), ('stat', '--backend')])
def test_usage_errors(profgpu, no_gpu, words):
    result = profgpu(*words, env=no_gpu)
    assert result.returncode == 2 and result.stdout == b'' and result.stderr.startswith(b'profgpu: ' + words[0].encode())


@pytest.mark.parametrize('command', ['stat', 'pick', 'devices', 'doctor'])
def test_full_disk_and_closed_output(profgpu, on, command):
    environment = on('two_h100')
    if os.path.exists('/dev/full'):
        with open('/dev/full', 'w') as full:
            result = profgpu(command, env=environment, stdout=full, stderr=subprocess.PIPE)
        assert result.returncode == 1 and b'No space left' in result.stderr
    closed = subprocess.run(['bash', '-c', f'"{PROGRAM}" {command} >&-'], env=environment, capture_output=True, timeout=30)
    assert closed.returncode == 1 and b'standard output' in closed.stderr


@pytest.mark.parametrize('command', ['stat', 'pick', 'devices'])
def test_unknown_devices(profgpu, on, command):
    result = profgpu(command, '--device', '7', env=on('two_h100'))
    assert result.returncode in (1, 2) and b'"7"' in result.stderr and b'NVIDIA H100' in result.stderr


FACTS = 'index,serial,vbios_version,persistence_mode,compute_mode,ecc.mode.current,mig.mode.current'


def test_what_a_device_says_once(profgpu, on):
    said = profgpu('log', '--backend', 'nvml', '--device', 'all', '--count', '1', '--query', FACTS, '--units', '--format', 'csv',
               text=True, env=on('device 0..1\ndevice 1\ncompute_mode 3\npersistence 0\necc_mode denied\n'))
    head, *rows = said.stdout.splitlines()
    assert head == FACTS.replace(',', ', ')
    assert sorted(rows) == ['0, 1650023000000, 96.00.61.00.01, Enabled, Default, Enabled, Disabled',
                            '1, 1650023000001, 96.00.61.00.01, Disabled, Exclusive_Process, [N/A], Disabled']


def test_a_device_that_does_not_tell_its_modes(profgpu, on):
    said = profgpu('log', '--backend', 'nvml', '--device', 'all', '--count', '1', '--query', FACTS, '--format', 'csv',
               text=True, env=on('device 0..1\ndevice 1\nhang nvmlDeviceGetPersistenceMode 0\n'))
    rows = sorted(said.stdout.splitlines()[1:])
    assert rows == ['0,1650023000000,96.00.61.00.01,Enabled,Default,Enabled,Disabled', '1,,,,,,']
    assert 'GPU 1: its driver did not report' in said.stderr
