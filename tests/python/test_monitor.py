"""profgpu monitor: alerts of the stand-in driver that rise and clear, commands, webhooks and syslog, and a log that survives what befalls it."""
import contextlib
import http.server
import json
import os
import re
import resource
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

from conftest import program
from exporter_page import REPLAY, STUB


class Monitor:
    """A running `profgpu monitor`."""

    def __init__(self, *words, env=None, **more):
        self.lines = []
        self.process = subprocess.Popen([program('PROFGPU', 'profgpu'), 'monitor', *map(str, words)], env=dict(os.environ, **(env or {})),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
        self.reader = threading.Thread(target=lambda: self.lines.extend(iter(self.process.stderr.readline, '')))
        self.reader.start()

    @property
    def said(self):
        return ''.join(self.lines)

    def wait_for(self, true, seconds=60):
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, f'this never came; it said:\n{self.said}'
            time.sleep(0.02)

    def wait_until_it_says(self, *texts, seconds=60):
        self.wait_for(lambda: all(t in self.said for t in texts), seconds)

    def end(self, how=signal.SIGTERM):
        """Its exit code."""
        self.process.send_signal(how)
        return self.wait()

    def wait(self, seconds=60):
        code = self.process.wait(timeout=seconds)
        self.reader.join()
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def monitor():
    """monitor(*options, scenario=) -> a Monitor; from the replay unless a scenario is given."""
    running = []

    def run(*words, scenario=None, env=None, **more):
        if scenario is not None:
            env = dict(env or {}, PROFGPU_NVML_LIBRARY=STUB, PROFGPU_NVML_SCENARIO=str(scenario))
            words = ('--backend', 'nvml', *words)
        elif '--backend' not in words:
            words = ('--backend', REPLAY + ',loop', *words)
        running.append(Monitor(*words, env=env, **more))
        return running[-1]

    yield run
    for one in running:
        one.kill()


@pytest.fixture
def receiver():
    """receiver(answers=(500, ...), tls=context) -> a real HTTP server; .posts has what came. After `answers` it answers 200."""
    servers = []

    def serve(answers=(), tls=None):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                self.server.posts.append((self.path, dict(self.headers), json.loads(body)))
                self.send_response(self.server.answers.pop(0) if self.server.answers else 200)
                self.send_header('Content-Length', '0')
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        server.posts, server.answers = [], list(answers)
        server.url = f'http{"s" if tls else ""}://127.0.0.1:{server.server_address[1]}/alerts'
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def rows_of(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def alerts_of(path):
    return [(r['alert']['name'], r['alert']['state'], r.get('device')) for r in rows_of(path) if 'alert' in r]


def children_of(pid):
    """Process numbers, zombies among them."""
    found = set()
    for thread in os.listdir(f'/proc/{pid}/task'):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):   # a thread that has just ended
            with open(f'/proc/{pid}/task/{thread}/children') as f:
                found.update(map(int, f.read().split()))
    return found


def test_a_device_that_is_lost_and_comes_back(monitor, stage, tmp_path, profgpu):
    log, said = tmp_path / 'gpu.jsonl', tmp_path / 'said'
    m = monitor('-i', '0.1', '-o', log, '--alert', 'device_lost: up < 1 for 1s clear after 1s severity critical',
                '--on-alert', f'echo "$PROFGPU_ALERT_STATE $PROFGPU_ALERT_GPU $PROFGPU_ALERT_UUID" >> {said}; cat >> {said}.json',
                scenario=stage('device 0..1\npower 100\ndevice 1\nuuid GPU-one\nlost 1 4\n'))
    m.wait_until_it_says('raised device_lost (critical): GPU 1', 'cleared device_lost')
    assert 'GPU 1: GPU is lost' in m.said and 'GPU 1 answers again' in m.said
    m.wait_for(lambda: said.exists() and said.read_text().count('\n') == 2)
    assert m.end() == 0
    assert said.read_text() == 'raised 1 GPU-one\ncleared 1 GPU-one\n'
    raised = json.loads((tmp_path / 'said.json').read_text().splitlines()[0])
    assert raised['device'] == 1 and raised['alert']['severity'] == 'critical'
    assert 1e9 <= raised['time_ns'] - raised['alert']['since_ns'] < 3e9
    assert alerts_of(log) == [('device_lost', 'raised', 1), ('device_lost', 'cleared', 1)]
    # The log is a log of samples like any other.
    samples = [r for r in rows_of(log) if 'alert' not in r]
    assert f'rows written to {log}: {len(samples) + 2}' in m.said
    document = json.loads(profgpu('analyze', '--json', log).stdout)
    assert document['inputs'][0]['events'] == len(samples) and document['inputs'][0]['issues'] == []
    replayed = profgpu('log', '--backend', f'replay:{log},speed=max', '-i', '0.001', '--format', 'json')
    assert replayed.returncode == 0 and replayed.stdout.count(b'\n') > 10


def test_xid_and_throttling(monitor, stage, tmp_path):
    log = tmp_path / 'gpu.jsonl'
    m = monitor('-i', '0.1', '-o', log, '--alert', 'throttled: mean(slowed_down_pct, 1s) > 50% until 25% for 1s clear after 1s',
                scenario=stage('device 0..1\npower 100\ndevice 0\nxid 79 1\nxid 31 0.5\nreasons steps 1 0 64 64 64 0 0 0 0\n'
                               'device 1\nxid 13 1\nreasons 4\n'))
    m.wait_until_it_says('cleared throttled')
    assert m.end() == 0
    assert sorted(alerts_of(log)) == [('throttled', 'cleared', 0), ('throttled', 'raised', 0), ('xid_critical', 'raised', 0)]


def test_the_webhook_gets_alerts_in_order_and_again(monitor, stage, receiver):
    server = receiver(answers=[503, 500])
    m = monitor('-i', '0.1', '--webhook', server.url, '--only-own-alerts', '--alert', 'hot: power_w > 80 until 70 for 0.2s severity critical',
                scenario=stage('device 0\npower steps 1 50 90 60 50\n'))
    m.wait_for(lambda: len(server.posts) == 4)
    assert m.end() == 0
    bodies = [body for _, _, body in server.posts]
    assert [b['status'] for b in bodies] == ['firing'] * 3 + ['resolved']
    assert bodies[0] == bodies[1] == bodies[2]
    path, headers, body = server.posts[0]
    assert path == '/alerts' and headers['Content-Type'] == 'application/json'
    assert body['version'] == '4' and body['receiver'] == 'profgpu'
    alert, = body['alerts']
    assert alert['labels']['alertname'] == 'hot' and alert['labels']['severity'] == 'critical' and alert['labels']['gpu'] == '0'
    assert 'power_w is 90 W' in alert['annotations']['summary']
    assert alert['startsAt'] == bodies[3]['alerts'][0]['startsAt'] < bodies[3]['alerts'][0]['endsAt']
    assert alert['fingerprint'] == bodies[3]['alerts'][0]['fingerprint']
    assert m.said.count('retrying') == 1 and 'answers 503' in m.said and 'accepts alerts again' in m.said


def test_a_webhook_that_fails_and_then_refuses_has_not_accepted_anything(monitor, stage, receiver):
    server = receiver(answers=[503, 400])
    m = monitor('-i', '0.1', '--webhook', server.url, '--only-own-alerts', '--alert', 'busy: utilization_pct >= 0',
                scenario=stage('device 0\nutilization 50\n'))
    m.wait_until_it_says('rejects an alert: it answers 400')
    assert m.end() == 0
    assert m.said.count('retrying') == 1 and 'accepts alerts again' not in m.said


def test_a_webhook_that_refuses_or_is_not_there(monitor, stage, receiver):
    server = receiver(answers=[404])
    options = ('-i', '0.1', '--only-own-alerts', '--alert', 'busy: utilization_pct >= 0')
    m = monitor(*options, '--webhook', server.url, scenario=stage('device 0\nutilization 50\n'))
    m.wait_until_it_says('rejects an alert: it answers 404')
    assert m.end() == 0 and len(server.posts) == 1
    with socket.socket() as silent:   # takes connections and says nothing
        silent.bind(('127.0.0.1', 0))
        silent.listen()
        m = monitor(*options, '--action-limit', '0.5', '--webhook', f'http://127.0.0.1:{silent.getsockname()[1]}/', scenario=stage('device 0\nutilization 50\n'))
        m.wait_until_it_says('no answer within 0.5 s; retrying')
        begun = time.monotonic()
        assert m.end() == 0 and time.monotonic() - begun < 30
    assert 'could not post 1 alert' in m.said


def test_a_webhook_over_tls(receiver, profgpu, tmp_path):
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', 'key', '-out', 'crt', '-days', '9',
                    '-subj', '/CN=a test', '-addext', 'subjectAltName=IP:127.0.0.1'], cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / 'crt', tmp_path / 'key')
    server = receiver(tls=context)
    test = ('monitor', '--test-alert', '--webhook', server.url)
    r = profgpu(*test, env=dict(os.environ, SSL_CERT_FILE=str(tmp_path / 'crt')), text=True)
    assert r.returncode == 0, r.stderr
    assert [body['status'] for _, _, body in server.posts] == ['firing', 'resolved']
    r = profgpu(*test, text=True)   # nobody vouches for it
    assert r.returncode == 1 and 'TLS' in r.stderr and len(server.posts) == 2
    elsewhere = server.url.replace('127.0.0.1', 'localhost')   # of which the certificate says nothing
    r = profgpu('monitor', '--test-alert', '--webhook', elsewhere, env=dict(os.environ, SSL_CERT_FILE=str(tmp_path / 'crt')), text=True)
    assert r.returncode == 1 and len(server.posts) == 2


def test_a_command_that_hangs_or_fails(monitor, stage):
    m = monitor('-i', '0.1', '--action-limit', '0.5', '--only-own-alerts', '--alert', 'busy: utilization_pct > 50 clear after 0s',
                '--on-alert', 'sleep 1000', scenario=stage('device 0..5\nutilization square 0 100 1\n'))
    most, seen = 0, set()
    end = time.monotonic() + 60
    while len(seen) <= 4 and time.monotonic() < end:
        children = children_of(m.process.pid)
        most = max(most, len(children))
        seen.update(children)
        time.sleep(0.05)
    assert 1 <= most <= 4 < len(seen)
    m.wait_until_it_says('the command for busy takes too long; ending it', 'was ended by signal 15')
    begun = time.monotonic()
    assert m.end() == 0 and time.monotonic() - begun < 60
    assert not [pid for pid in seen if os.path.exists(f'/proc/{pid}')]
    m = monitor('-i', '0.1', '--only-own-alerts', '--alert', 'busy: utilization_pct >= 0', '--on-alert', 'exit 9', scenario=stage('device 0\nutilization 50\n'))
    m.wait_until_it_says('ended with status 9')
    m.wait_for(lambda: not children_of(m.process.pid))
    assert m.end() == 0


def test_test_alert(profgpu, receiver, tmp_path):
    server, said = receiver(), tmp_path / 'said'
    r = profgpu('monitor', '--test-alert', '--webhook', server.url, '--on-alert', f'echo $PROFGPU_ALERT $PROFGPU_ALERT_STATE >> {said}', text=True)
    assert r.returncode == 0, r.stderr
    assert said.read_text() == 'test raised\ntest cleared\n'
    assert [body['alerts'][0]['labels']['alertname'] for _, _, body in server.posts] == ['test', 'test']
    assert r.stderr.count('--on-alert: ok') == 2 and r.stderr.count('--webhook: ok') == 2
    r = profgpu('monitor', '--test-alert', '--on-alert', 'exit 1', '--webhook', 'http://127.0.0.1:1/', text=True)
    assert r.returncode == 1 and 'Connection refused' in r.stderr and 'not every action succeeded with the test alert' in r.stderr
    assert profgpu('monitor', '--test-alert').returncode == 2


def test_syslog(profgpu):
    if os.path.exists('/dev/log') or os.geteuid() != 0:
        pytest.skip('/dev/log is not ours to be')
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind('/dev/log')
        try:
            log.settimeout(60)
            assert profgpu('monitor', '--test-alert', '--syslog').returncode == 0
            raised, cleared = log.recv(4096).decode(), log.recv(4096).decode()
        finally:
            os.unlink('/dev/log')
    assert raised.startswith('<30>') and 'profgpu[' in raised and 'raised test (info)' in raised   # daemon.info
    assert cleared.startswith('<29>') and 'cleared test' in cleared                               # daemon.notice


def test_files_rotate_and_each_stands_alone(monitor, tmp_path, profgpu):
    log = tmp_path / 'gpu.jsonl'
    m = monitor('-i', '0.005', '-o', log, '--rotate', '8KiB', '--keep', '2')
    m.wait_for(lambda: os.path.exists(f'{log}.2'))
    time.sleep(0.5)
    assert m.end() == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ['gpu.jsonl', 'gpu.jsonl.1', 'gpu.jsonl.2']
    for name in ('gpu.jsonl.1', 'gpu.jsonl.2'):
        assert 7000 < os.path.getsize(tmp_path / name) <= 8192
    for path in tmp_path.iterdir():
        assert {r.get('uuid') for r in rows_of(path) if 'uuid' in r}, path   # devices are introduced in each
    document = json.loads(profgpu('analyze', '--json', f'{log}.1').stdout)
    assert document['inputs'][0]['issues'] == []


def test_sighup_reopens(monitor, tmp_path):
    log, old = tmp_path / 'gpu.jsonl', tmp_path / 'old.jsonl'
    m = monitor('-i', '0.01', '-o', log)
    m.wait_for(lambda: log.exists() and log.stat().st_size > 2000)
    os.rename(log, old)
    m.process.send_signal(signal.SIGHUP)
    m.wait_for(lambda: log.exists() and log.stat().st_size > 2000)
    size = old.stat().st_size
    time.sleep(0.2)
    assert old.stat().st_size == size
    assert m.end() == 0
    for path in (log, old):
        assert any('uuid' in r for r in rows_of(path))


def test_kill_leaves_whole_rows_and_the_next_goes_on(monitor, tmp_path):
    log = tmp_path / 'gpu.jsonl'
    m = monitor('-i', '0.01', '-o', log)
    m.wait_for(lambda: log.exists() and log.stat().st_size > 2000)
    m.kill()
    count = len(rows_of(log))
    m = monitor('-i', '0.01', '-o', log)
    m.wait_for(lambda: log.stat().st_size > 4000)
    assert m.end() == 0 and len(rows_of(log)) > count


def test_a_full_disk_is_said_once_and_the_log_goes_on(monitor, stage, tmp_path):
    # A file size limit stands for the disk; it is lifted as a disk is emptied.
    log = tmp_path / 'gpu.jsonl'
    m = monitor('-i', '0.02', '-o', log, '--only-own-alerts', '--alert', 'busy: utilization_pct > 50 clear after 0s',
                scenario=stage('device 0\nutilization square 0 100 1\n'),
                preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY))))
    m.wait_until_it_says('cannot be written')
    m.wait_for(lambda: m.said.count('raised busy') >= 3)
    assert m.said.count('cannot be written') == 1
    rows_of(log)   # whole rows
    resource.prlimit(m.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    m.wait_until_it_says('continues; rows lost: ')
    size = log.stat().st_size
    m.wait_for(lambda: log.stat().st_size > size + 2000)
    assert m.end() == 0
    rows_of(log)


def test_a_device_that_is_always_full(monitor, stage):
    m = monitor('-i', '0.05', '-o', '/dev/full', '--only-own-alerts', '--alert', 'busy: utilization_pct > 50 clear after 0s',
                scenario=stage('device 0\nutilization square 0 100 1\n'))
    m.wait_for(lambda: m.said.count('raised busy') >= 3)
    assert m.said.count('No space left on device') == 1
    assert m.end() == 0


def test_a_folder_that_goes_and_comes(monitor, tmp_path):
    folder = tmp_path / 'logs'
    folder.mkdir()
    m = monitor('-i', '0.01', '-o', folder / 'gpu.jsonl', '--rotate', '4KiB', '--keep', '1')
    m.wait_for(lambda: (folder / 'gpu.jsonl.1').exists())
    folder.rename(tmp_path / 'away')
    m.wait_until_it_says('alerts continue')
    folder.mkdir()
    m.wait_until_it_says(': continues')
    assert m.end() == 0 and rows_of(folder / 'gpu.jsonl')


def test_memory_stays_flat(monitor, tmp_path):
    # bench/day.py has a day of readings.
    m = monitor('--backend', REPLAY + ',loop,speed=1000', '-i', '0.001', '-o', tmp_path / 'gpu.jsonl', '--rotate', '256KiB', '--keep', '2')
    course = []   # kB of its own, at each rotation: pages of files come and go with the machine's load

    def rotated(times):
        def full():
            name = f'{tmp_path}/gpu.jsonl.1'
            if os.path.exists(name) and (at := os.stat(name).st_mtime_ns) not in (c[0] for c in course):
                with open(f'/proc/{m.process.pid}/status') as f:
                    course.append((at, int(re.search(r'RssAnon:\s+(\d+)', f.read())[1])))
            return len(course) >= times
        return full

    m.wait_for(rotated(12))
    assert m.end() == 0
    assert int(re.search(r'rows written to .*: (\d+)', m.said)[1]) > 1000
    assert max(kb for _, kb in course) - course[0][1] < 512, course


def test_a_hung_driver_does_not_keep_it(monitor, stage):
    m = monitor('-i', '0.1', '--alert', 'device_lost: up < 1 for 0.5s', scenario=stage('device 0..1\npower 100\ndevice 0\nhang any 1\n'))
    m.wait_until_it_says('GPU 0: does not answer', 'raised device_lost')
    assert m.end() == 0


def test_ends(monitor, profgpu, tmp_path):
    m = monitor('-i', '0.05')
    m.wait_until_it_says('2 GPUs, read every 0.05 s; 8 alerts; no log (--output)')
    assert m.end(signal.SIGINT) == 0
    assert profgpu('monitor', '--backend', REPLAY, '-i', '0.05', '--duration', '0.5').returncode == 0
    r = profgpu('monitor', '--backend', REPLAY + ',speed=100', '-i', '0.05', '-o', tmp_path / 'a.jsonl', text=True)   # the replay's end
    assert r.returncode == 0 and 'Next: profgpu analyze' in r.stderr


@pytest.mark.parametrize('words, says', [
    (['--alert', 'hot: temprature_c > 85'], 'no metric "temprature_c"'),
    (['--alerts', '/nowhere'], '/nowhere: cannot be read'),
    (['-o', 'gpu.csv'], 'logs with alerts are JSON lines'),
    (['--rotate', '1MB'], '--rotate needs a log'),
    (['-o', 'gpu.jsonl', '--keep', '-1'], '--keep takes a whole number'),
    (['--webhook', 'ftp://h/'], 'is not an address that begins with http'),
    (['--action-limit', 'soon'], '--action-limit takes a time'),
    (['--on-alert', ''], '--on-alert is empty'),
])
def test_mistakes_are_usage_errors(profgpu, words, says):
    r = profgpu('monitor', '--backend', REPLAY, *words, text=True)
    assert r.returncode == 2 and says in r.stderr


def test_alerts_from_a_file(profgpu, tmp_path):
    path = tmp_path / 'alerts'
    path.write_text('# ours\n\nhot: temperature_c > 85\r\nthrottled: off\n')
    text = profgpu('monitor', '--alerts', path, '--alert', 'full: memory_used_pct > 90', '--help-alerts', text=True).stdout
    assert '  hot: temperature_c > 85\n' in text and '  full: memory_used_pct > 90\n' in text and '  throttled:' not in text


def test_no_device_and_no_log(profgpu, tmp_path):
    assert profgpu('monitor', '--backend', 'none').returncode == 1
    assert profgpu('monitor', '--backend', REPLAY, '-o', tmp_path / 'no' / 'gpu.jsonl').returncode == 1
