"""profgpu exporter: its pages, what it counts, devices that are lost or hang, dcgm-exporter's settings, bad and many requests."""
import concurrent.futures
import gzip
import http.client
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from exporter_page import REPLAY, STUB, Exporter, samples

OPEN_METRICS = 'application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5'


@pytest.fixture
def exporter():
    """exporter(*options, env=, scenario=) -> an Exporter whose devices have been read; from the replay unless a scenario is given."""
    running = []

    def run(*words, scenario=None, env=None, ready=True, **more):
        if scenario is not None:
            env = dict(env or {}, PROFGPU_NVML_LIBRARY=STUB, PROFGPU_NVML_SCENARIO=str(scenario))
            words = ('--backend', 'nvml', *words)
        elif '--backend' not in words:
            words = ('--backend', REPLAY, *words)
        running.append(Exporter(*words, env=env, **more))
        return running[-1].wait_ready() if ready else running[-1]

    yield run
    for one in running:
        one.kill()


def test_classic_names_and_labels(exporter):
    e = exporter(env={'NODE_NAME': 'node1'})
    text = e.page()
    assert '# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n' in text
    assert '# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n' in text
    line = next(x for x in text.splitlines() if x.startswith('DCGM_FI_DEV_POWER_USAGE{gpu="1"'))
    assert re.fullmatch(r'DCGM_FI_DEV_POWER_USAGE\{gpu="1",UUID="GPU-00000000-5eed-4000-8000-000000000001",pci_bus_id="00000000:3B:00.0",'
                        r'device="nvidia1",modelName="NVIDIA H100 80GB HBM3 \(synthetic\)",Hostname="node1",'
                        r'DCGM_FI_DRIVER_VERSION="590.48.01"\} \d+\.\d{6}', line), line
    names = [name for name, _, _ in samples(text)]
    assert 'DCGM_FI_DEV_ENC_UTIL' not in names   # the log has none
    assert '9223372036854775794' not in text and 'NaN' not in text
    # One block for each family, each series once.
    families = [line.split()[2] for line in text.splitlines() if line.startswith('# TYPE')]
    assert len(families) == len(set(families))
    keys = [line.rsplit(' ', 1)[0] for line in text.splitlines() if not line.startswith('#')]
    assert len(keys) == len(set(keys))


def test_own_names_have_base_units(exporter):
    e = exporter('--dcgm-names', 'off', '--no-hostname')
    text = e.page()
    assert 'DCGM_' not in text and 'host=' not in text
    labels = {'gpu': '0', 'uuid': 'GPU-00000000-5eed-4000-8000-000000000000', 'model': 'NVIDIA H100 80GB HBM3 (synthetic)'}
    page = {name: (have, n) for name, have, n in samples(text) if have.get('gpu') == '0'}
    assert page['profgpu_memory_total_bytes'] == (labels, 81559 << 20)
    assert 0 <= page['profgpu_utilization_ratio'][1] <= 1
    assert page['profgpu_sm_clock_max_hertz'][1] == 1.98e9
    assert page['profgpu_device_up'][1] == 1 and page['profgpu_device_errors_total'][1] == 0
    assert abs(page['profgpu_device_last_success_timestamp_seconds'][1] - time.time()) < 30


def test_new_names(exporter):
    names = {name for name, _, _ in samples(exporter('--dcgm-names', '4.6').page())}
    assert {'DCGM_FI_DEV_GPU_TEMP_CELSIUS', 'DCGM_FI_DEV_BOARD_POWER_WATTS', 'DCGM_FI_DEV_GPU_UTIL_RATIO'} <= names
    assert 'DCGM_FI_DEV_GPU_TEMP' not in names


def test_formats(exporter):
    e = exporter()
    status, headers, body = e.get()
    assert headers['Content-Type'] == 'text/plain; version=0.0.4; charset=utf-8' and not body.endswith(b'# EOF\n')
    _, headers, body = e.get(headers={'Accept': OPEN_METRICS})
    assert headers['Content-Type'].startswith('application/openmetrics-text; version=1.0.0') and body.endswith(b'# EOF\n')
    text = body.decode()
    assert '# TYPE profgpu_energy_joules counter\n' in text and 'profgpu_energy_joules_total{' in text
    assert '# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION unknown\n' in text
    samples(text)
    _, headers, body = e.get(headers={'Accept-Encoding': 'gzip'})
    assert headers['Content-Encoding'] == 'gzip' and 'DCGM_FI_DEV_GPU_UTIL{' in gzip.decompress(body).decode()
    status, headers, body = e.get(method='HEAD')
    assert status == 200 and body == b'' and int(headers['Content-Length']) > 1000


def test_other_pages(exporter):
    e = exporter()
    assert e.get('/health')[::2] == (200, b'OK\n')
    assert e.get('/-/ready')[::2] == (200, b'ready\n')
    status, headers, body = e.get('/')
    assert status == 200 and headers['Content-Type'].startswith('text/html')
    text = body.decode()
    assert 'H100 80GB HBM3' in text and 'answers' in text
    assert 'http' not in text and '<script' not in text   # nothing from elsewhere
    assert e.get('/metrics?x=1')[0] == 200
    assert e.get('/nowhere')[0] == 404
    assert e.get(method='POST')[0] == 405


def test_a_replay_goes_round_and_counters_grow(exporter):
    e = exporter('--backend', REPLAY + ',speed=200', '-i', '0.05')
    before = {(n, h['gpu']): v for n, h, v in samples(e.page()) if n in ('profgpu_energy_joules_total', 'profgpu_busy_seconds_total')}
    assert len(before) == 4
    time.sleep(2)   # some 400 s of a log of one minute
    after = {(n, h['gpu']): v for n, h, v in samples(e.page()) if (n, h.get('gpu')) in before}
    assert all(after[k] > before[k] for k in before)


def test_memory_stays_flat(exporter):
    # As many readings as in two hours; bench/day.py has a day of them.
    e = exporter('--backend', REPLAY + ',speed=1000', '-i', '0.001')
    course = []
    while len(course) < 70 or e.values('profgpu_exporter_readings_total')[0] <= 5000:
        assert len(course) < 1200
        time.sleep(0.1)
        e.page()
        course.append(e.resident_kb())
    assert max(course[20:]) - course[20] < 512, course


def test_bursts_between_scrapes_are_counted(exporter, stage):
    # A tenth of each second at 100 %: a scrape that reads the newest value sees 0 or 100.
    e = exporter('-i', '1', scenario=stage('device 0\nutilization square 0 100 1.0 0.1\nring utilization 0.02 200\npower 100\n'))
    e.wait_for(lambda: e.values('profgpu_watched_seconds_total')[0] > 0.5)
    busy, watched = e.values('profgpu_busy_seconds_total')[0], e.values('profgpu_watched_seconds_total')[0]
    time.sleep(5.5)
    busy, watched = e.values('profgpu_busy_seconds_total')[0] - busy, e.values('profgpu_watched_seconds_total')[0] - watched
    assert watched > 3
    assert busy / watched == pytest.approx(0.1, abs=0.04)


def test_a_scrape_never_waits_for_the_driver(exporter, stage):
    # 0.2 s a call: a page of 30 calls would take seconds.
    e = exporter('-i', '1', scenario=stage('delay_us 200000\ndevice 0\nutilization 50\npower 100\n'), ready=False)
    e.wait_for(lambda: e.values('profgpu_power_watts') == [100], seconds=60)
    begun = time.monotonic()
    for _ in range(20):
        e.page()
    assert time.monotonic() - begun < 60, 'it would be 120 s'
    before = e.values('profgpu_exporter_driver_calls_total')[0]
    for _ in range(200):
        e.page()
    assert e.values('profgpu_exporter_driver_calls_total')[0] - before < 300, 'it would be 6000'


LOST = 'device 0..1\nutilization 80\npower 400\nmemory_used 8589934592\ndevice 1\nxid 79 1\n'


def test_a_lost_device(exporter, stage):
    e = exporter('-i', '0.1', scenario=stage(LOST + 'lost 1 4\n'))
    e.wait_for(lambda: e.values('profgpu_device_up') == [1, 0])
    page = samples(e.page())
    shown = {name for name, have, _ in page if have.get('gpu') == '1'}
    shown.discard('DCGM_FI_DEV_XID_ERRORS')   # why it was lost
    assert not any(name.startswith('DCGM_') or name == 'profgpu_power_watts' for name in shown), shown
    assert {'profgpu_device_up', 'profgpu_device_errors_total', 'profgpu_xid_errors_total'} <= shown
    assert e.values('profgpu_device_errors_total', gpu='1')[0] > 0 and e.values('profgpu_device_errors_total', gpu='0') == [0]
    e.wait_for(lambda: e.values('profgpu_xid_errors_total', gpu='1', xid='79') == [1])
    assert e.values('profgpu_xid_errors_total', gpu='0', xid='79') == [0]
    assert e.values('profgpu_power_watts', gpu='0') == [400]
    assert e.get('/health')[::2] == (200, b'OK\nGPU 1: GPU is lost\n')
    assert 'GPU is lost' in e.get('/')[2].decode()
    e.wait_for(lambda: e.values('profgpu_device_up') == [1, 1])
    e.wait_for(lambda: e.values('DCGM_FI_DEV_XID_ERRORS', gpu='1', err_code='79') == [79])
    e.wait_for(lambda: 'profgpu: exporter: GPU 1 answers again\n' in ''.join(e.error))
    assert e.end()[0] == 0
    assert 'profgpu: exporter: GPU 1: GPU is lost\n' in ''.join(e.error)


def test_a_driver_that_hangs(exporter, stage):
    e = exporter('-i', '0.1', scenario=stage('device 0..1\nutilization 80\npower 400\ndevice 1\nhang any 1\n'))
    e.wait_for(lambda: e.values('profgpu_device_up') == [1, 0])
    first = e.values('profgpu_busy_seconds_total', gpu='0')[0]
    e.wait_for(lambda: e.values('profgpu_busy_seconds_total', gpu='0')[0] > first)
    assert b'GPU 1: does not answer' in e.get('/health')[2]
    code, seconds = e.end()
    assert code == 0 and seconds < 8


def test_no_device_answers(exporter, stage):
    e = exporter('-i', '0.1', scenario=stage('device 0\npower 100\nlost 0.5\n'))
    e.wait_for(lambda: e.get('/health')[0] == 503)
    assert e.get('/health')[2] == b'KO\nGPU 0: GPU is lost\n'
    assert e.get()[0] == 200 and e.values('profgpu_device_up') == [0]


def test_mig_instances(exporter):
    scenario = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'stubs', 'nvml', 'scenarios', 'mig.txt')
    e = exporter('-i', '0.1', scenario=scenario)
    instances = [h for n, h, _ in samples(e.page()) if n == 'DCGM_FI_DEV_FB_USED' and 'GPU_I_ID' in h]
    assert instances and all(h['GPU_I_PROFILE'] for h in instances)
    assert len({(h['gpu'], h['GPU_I_ID']) for h in instances}) == len(instances)
    assert not [h for n, h, _ in samples(e.page()) if n == 'DCGM_FI_DEV_GPU_UTIL' and 'GPU_I_ID' in h]


@pytest.mark.parametrize('how', [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it(exporter, how):
    e = exporter()
    keeping = http.client.HTTPConnection('127.0.0.1', e.port)
    keeping.request('GET', '/health')
    keeping.getresponse().read()   # an open connection does not hold it
    code, seconds = e.end(how)
    assert code == 0 and seconds < 3


def test_errors_say_what_to_do(exporter, profgpu, tmp_path):
    e = exporter()

    def problem(*words, code=1, **more):
        r = profgpu('exporter', *words, text=True, **more)
        assert r.returncode == code, r.stderr
        return r.stderr

    used = problem('--backend', REPLAY, '--listen', f'127.0.0.1:{e.port}')
    assert f'cannot listen on 127.0.0.1:{e.port}: Address already in use' in used and 'hint: is another exporter running?' in used
    assert 'no interface of this machine' in problem('--backend', REPLAY, '--listen', '203.0.113.7:9400')
    for wrong in ('9400', '1.2.3.4', '127.0.0.1:', '127.0.0.1:70000', '::1:9400', 'x:y', ':', '', ':99999'):
        assert 'is not ADDRESS:PORT' in problem('--backend', REPLAY, '--listen', wrong, code=2), wrong
    assert 'is not an address' in problem('--backend', REPLAY, '--listen', 'no such host:9400')
    assert 'no GPU found' in problem('--listen', '127.0.0.1:0', '--backend', 'none')
    assert 'no-such.csv: cannot be read' in problem('-f', tmp_path / 'no-such.csv', code=2)
    (tmp_path / 'bad.csv').write_text('DCGM_FI_DEV_GPU_TEMP gauge\n')
    assert 'bad.csv: line 1: ' in problem('-f', tmp_path / 'bad.csv', code=2)
    assert '--interval takes' in problem('-i', '0', code=2)
    assert 'milliseconds' in problem('--backend', REPLAY, code=2, env=dict(os.environ, DCGM_EXPORTER_INTERVAL='1s'))
    assert 'no-such.yml: cannot be read' in problem('--web.config.file', tmp_path / 'no-such.yml', code=2)


def test_dcgm_exporters_settings(exporter, tmp_path):
    counters = tmp_path / 'counters.csv'
    counters.write_text('# a site\'s own\nDCGM_FI_DEV_GPU_TEMP, gauge, How hot\nDCGM_FI_DEV_FB_TOTAL, gauge, All of it\n'
                        'DCGM_FI_DEV_VGPU_LICENSE_STATUS, gauge, vGPU License status\n')
    e = exporter('--listen', '127.0.0.1:0', env={'DCGM_EXPORTER_INTERVAL': '500', 'DCGM_EXPORTER_COLLECTORS': str(counters),
                                                'DCGM_EXPORTER_LISTEN': '127.0.0.1:1', 'DCGM_EXPORTER_USE_OLD_NAMESPACE': 'true',
                                                'DCGM_EXPORTER_NO_HOSTNAME': 'true', 'DCGM_EXPORTER_DEVICES_STR': 'g:1'})
    text = e.page()
    dcgm = {(n, h['gpu']) for n, h, _ in samples(text) if n.startswith('DCGM_')}
    assert dcgm == {('DCGM_FI_DEV_GPU_TEMP', '1'), ('DCGM_FI_DEV_FB_TOTAL', '1')}
    assert '# HELP DCGM_FI_DEV_GPU_TEMP How hot\n' in text and 'Hostname' not in text and 'DRIVER_VERSION' not in text
    told = ''.join(e.error)
    assert 'read every 0.5 s' in told
    assert f'{counters}: not measured and left out: DCGM_FI_DEV_VGPU_LICENSE_STATUS\n' in told
    assert 'ignored: DCGM_EXPORTER_USE_OLD_NAMESPACE\n' in told
    # The file of dcgm-exporter's image, where there is none.
    other = exporter(env={'DCGM_EXPORTER_COLLECTORS': '/etc/dcgm-exporter/default-counters.csv'})
    assert "using dcgm-exporter's default counters" in ''.join(other.error) and 'DCGM_FI_DEV_SM_CLOCK{' in other.page()


def test_jobs_from_a_folder(exporter, tmp_path):
    (tmp_path / '0').write_text('4711\n4712\n\n')
    e = exporter('--hpc-job-mapping-dir', tmp_path)
    e.wait_for(lambda: e.values('profgpu_device_job_info', gpu='0') == [1, 1])
    page = samples(e.page())
    assert [h.get('hpc_job') for n, h, _ in page if n == 'DCGM_FI_DEV_GPU_TEMP'] == ['4711', '4712', None]
    assert [h for n, h, _ in page if n == 'profgpu_power_watts' and 'hpc_job' in h] == []   # one series a device
    (tmp_path / '0').unlink()
    e.wait_for(lambda: not e.values('profgpu_device_job_info'))


def test_jobs_from_processes(exporter, stage):
    job = subprocess.Popen(['sleep', '60'], env=dict(os.environ, SLURM_JOB_ID='815'))
    try:
        e = exporter('-i', '0.2', scenario=stage(f'device 0\npower 100\nprocess {job.pid} C memory=1000000\n'))
        e.wait_for(lambda: e.values('profgpu_device_job_info', hpc_job='815') == [1], seconds=30)
        assert e.values('DCGM_FI_DEV_POWER_USAGE', hpc_job='815') == [100]
        assert e.values('profgpu_device_processes') == [1]
    finally:
        job.kill()
        job.wait()


def raw(port, text, seconds=5):
    """What comes back for these bytes."""
    with socket.create_connection(('127.0.0.1', port), timeout=seconds) as s:
        s.sendall(text)
        reply = b''
        try:
            while part := s.recv(65536):
                reply += part
        except TimeoutError:
            reply += b'(open)'
    return reply


def test_bad_requests(exporter):
    e = exporter()
    assert raw(e.port, b'GARBAGE\r\n\r\n').startswith(b'HTTP/1.1 400')
    assert raw(e.port, b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + os.urandom(300)).startswith(b'HTTP/1.1 400')
    assert raw(e.port, b'GET /metrics HTTP/9.9\r\n\r\n').startswith(b'HTTP/1.1 400')
    assert raw(e.port, b'GET /metrics HTTP/1.1\r\nX: ' + b'a' * 100_000).startswith(b'HTTP/1.1 431')
    assert raw(e.port, b'GET /' + b'a' * 100_000 + b' HTTP/1.1\r\n\r\n').startswith(b'HTTP/1.1 431')
    assert raw(e.port, b'GET /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello').startswith(b'HTTP/1.1 413')
    assert raw(e.port, b'POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n').startswith(b'HTTP/1.1 413')
    assert raw(e.port, b'DELETE / HTTP/1.1\r\n\r\n').startswith(b'HTTP/1.1 405')
    assert raw(e.port, b'GET /../../etc/passwd HTTP/1.0\r\n\r\n').startswith(b'HTTP/1.0 404')
    two = raw(e.port, b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /-/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
    assert two.count(b'HTTP/1.1 200') == 2 and two.endswith(b'ready\n')
    with socket.create_connection(('127.0.0.1', e.port)) as s:
        s.sendall(b'GET /metrics HTTP/1.1\r\n')   # and leaves
    assert e.get('/health')[0] == 200


def test_slow_clients_do_not_keep_others_out(exporter):
    e = exporter()
    slow = []
    try:
        for _ in range(400):   # more than may be open at once
            s = socket.socket()
            s.settimeout(60)
            s.connect(('127.0.0.1', e.port))
            s.sendall(b'GET /metrics HTTP/1.1\r\nX-Slow: ')
            slow.append(s)
        begun = time.monotonic()
        assert e.get('/health')[0] == 200
        assert time.monotonic() - begun < 30
        assert e.values('profgpu_exporter_connections')[0] <= 256
        assert e.values('profgpu_exporter_refused_connections_total')[0] > 0
    finally:
        for s in slow:
            s.close()


def test_a_slow_request_is_cut_off(exporter):
    e = exporter()
    begun = time.monotonic()
    with socket.create_connection(('127.0.0.1', e.port), timeout=30) as s:
        end = None
        while time.monotonic() - begun < 60 and end is None:
            try:
                s.sendall(b'G')   # a byte a second never ends
                s.settimeout(1)
                end = s.recv(1000)
            except TimeoutError:
                pass
            except OSError:
                end = b''
        assert end is not None and 8 < time.monotonic() - begun


def test_a_thousand_at_once(exporter):
    e = exporter()

    def ask(_):
        connection = http.client.HTTPConnection('127.0.0.1', e.port, timeout=60)
        connection.request('GET', '/metrics')
        reply = connection.getresponse()
        text = reply.read()
        connection.close()
        return reply.status, b'DCGM_FI_DEV_GPU_UTIL{' in text and text.endswith(b'\n')

    sizes = []
    with concurrent.futures.ThreadPoolExecutor(1000) as pool:
        for _ in range(3):
            answers = list(pool.map(ask, range(1000)))
            assert answers == [(200, True)] * 1000
            sizes.append(e.resident_kb())
    assert sizes[2] < sizes[0] + 2048, sizes
    assert e.end()[0] == 0


def test_memory_is_flat_over_many_readings(exporter):
    # The log of a minute, played ten thousand times as fast, goes round every 6 ms.
    e = exporter('--backend', REPLAY + ',speed=10000', '-i', '0.001')
    e.wait_for(lambda: e.values('profgpu_exporter_readings_total')[0] > 1000)
    before = e.resident_kb()
    readings = e.values('profgpu_exporter_readings_total')[0]
    e.wait_for(lambda: e.values('profgpu_exporter_readings_total')[0] - readings > 1500)
    assert e.resident_kb() < before + 512
