"""profgpu exporter --kubernetes: labels of pods, from a gRPC server in the kubelet's place that answers, changes, hangs, dies, and sends rubbish."""
import concurrent.futures
import os
import shutil
import socket
import tempfile
import threading
import time

import grpc
import pytest

from exporter_page import REPLAY, STUB, Exporter, samples

GPU = ['GPU-00000000-5eed-4000-8000-000000000000', 'GPU-00000000-5eed-4000-8000-000000000001']   # of the replay


def field(number, value):
    """A text or a message of protocol buffers."""
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(n):
    out = b''
    while n >= 0x80:
        out += bytes([n & 0x7f | 0x80])
        n >>= 7
    return out + bytes([n])


def pod(name, *ids, namespace='team', container='main', resource='nvidia.com/gpu'):
    """v1.PodResources with one container."""
    devices = field(1, resource) + b''.join(field(2, i) for i in ids)
    cpus = b'\x18\x01\x18\x02'   # fields that nobody asks for
    return field(1, name) + field(2, namespace) + field(3, field(1, container) + field(2, devices) + cpus)


def listed(*pods):
    return b''.join(field(1, p) for p in pods)


class Kubelet:
    """Serves v1.PodResourcesLister/List at `path`; `answer` is the reply's bytes, or a function of the call's context."""

    def __init__(self, path, answer=b''):
        self.path, self.answer, self.asked = path, answer, []
        self.released = threading.Event()
        self.pool = concurrent.futures.ThreadPoolExecutor(4)
        self.server = grpc.server(self.pool, options=[('grpc.max_send_message_length', -1)])
        handler = grpc.unary_unary_rpc_method_handler(self.list)   # bytes, as they are
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler('v1.PodResourcesLister', {'List': handler}),))
        assert self.server.add_insecure_port('unix:' + path)
        self.server.start()

    def list(self, request, context):
        self.asked.append((request, time.monotonic()))
        return self.answer(context) if callable(self.answer) else self.answer

    def hang(self, _):
        self.released.wait(60)
        return b''

    def stop(self):
        self.released.set()
        self.server.stop(None).wait()
        self.pool.shutdown()
        if os.path.exists(self.path):
            os.unlink(self.path)


@pytest.fixture
def path():
    """For a socket: short, as their paths must be."""
    folder = tempfile.mkdtemp(prefix='kubelet')
    yield os.path.join(folder, 'kubelet.sock')
    shutil.rmtree(folder)


@pytest.fixture
def kubelet(path):
    """kubelet(answer) -> a Kubelet that serves at `path`."""
    running = []

    def run(answer=b''):
        running.append(Kubelet(path, answer))
        return running[-1]

    yield run
    for one in running:
        one.stop()


@pytest.fixture
def exporter(path):
    """exporter(*options) -> an Exporter that asks the kubelet at `path` once a second."""
    running = []

    def run(*words, scenario=None, env=None):
        env = dict(env or {})
        if scenario is not None:
            env.update(PROFGPU_NVML_LIBRARY=STUB, PROFGPU_NVML_SCENARIO=str(scenario))
        backend = 'nvml' if scenario is not None else REPLAY
        running.append(Exporter('--backend', backend, '-i', '0.1', '--kubernetes', '--pod-resources-kubelet-socket', path, *words, env=env))
        return running[-1].wait_ready()

    yield run
    for one in running:
        one.kill()


def pods_on(e, gpu, name='DCGM_FI_DEV_POWER_USAGE'):
    """[(namespace, pod, container)] of that name's series."""
    return [(h.get('namespace'), h.get('pod'), h.get('container')) for n, h, _ in samples(e.page()) if n == name and h['gpu'] == str(gpu)]


NONE = (None, None, None)


def test_labels_of_pods(exporter, kubelet):
    k = kubelet(listed(pod('idle'), pod('train-0', GPU[1])))
    e = exporter()
    e.wait_for(lambda: pods_on(e, 1) == [('team', 'train-0', 'main')])
    text = e.page()
    line = next(x for x in text.splitlines() if x.startswith('DCGM_FI_DEV_POWER_USAGE{gpu="1"'))
    assert 'DCGM_FI_DRIVER_VERSION="590.48.01",container="main",namespace="team",pod="train-0"} ' in line
    assert all(h.get('pod') == 'train-0' for n, h, _ in samples(text) if n.startswith('DCGM_') and h['gpu'] == '1')
    assert pods_on(e, 0) == [NONE]
    # Ours are one series a device; the pods are a series to join.
    assert pods_on(e, 1, 'profgpu_power_watts') == [NONE]
    assert pods_on(e, 1, 'profgpu_device_pod_info') == [('team', 'train-0', 'main')]
    assert pods_on(e, 0, 'profgpu_device_pod_info') == []
    assert e.values('profgpu_kubelet_up') == [1]
    assert abs(e.values('profgpu_kubelet_last_success_timestamp_seconds')[0] - time.time()) < 60
    assert 'pod="train-0"' in e.page('application/openmetrics-text;version=1.0.0')
    assert 'team/train-0' in e.get('/')[2].decode()
    assert e.get('/health')[::2] == (200, b'OK\n')
    assert k.asked[0][0] == b''
    # Not by the requests of Prometheus, but by the clock.
    asked, begun = len(k.asked), time.monotonic()
    for _ in range(300):
        e.page()
    assert len(k.asked) - asked <= time.monotonic() - begun + 2
    assert e.end()[0] == 0
    assert 'kubelet' not in ''.join(e.error)


def test_pods_come_and_go(exporter, kubelet):
    k = kubelet(listed(pod('a', *GPU)))
    e = exporter()
    e.wait_for(lambda: pods_on(e, 0) == pods_on(e, 1) == [('team', 'a', 'main')])
    k.answer = listed(pod('b', GPU[0], namespace='other', container='x'))
    e.wait_for(lambda: pods_on(e, 0) == [('other', 'b', 'x')] and pods_on(e, 1) == [NONE])
    k.answer = b''
    e.wait_for(lambda: pods_on(e, 0) == [NONE])
    assert e.values('profgpu_kubelet_up') == [1]


def test_shared_devices(exporter, kubelet, tmp_path):
    (tmp_path / '0').write_text('4711\n4712\n')
    kubelet(listed(pod('b', GPU[0] + '::1'), pod('a', GPU[0] + '::0', GPU[0] + '::3'), pod('c', 'nvidia1/vgpu2')))
    e = exporter('--hpc-job-mapping-dir', tmp_path)
    e.wait_for(lambda: len(pods_on(e, 0, 'profgpu_device_pod_info')) == 3 and e.values('profgpu_device_job_info') == [1, 1])
    # One container's name, the same every time; each job has its copy, as ever.
    assert pods_on(e, 0) == [('team', 'a', 'main')] * 2 and 'vgpu' not in e.page()
    e = exporter('--kubernetes-virtual-gpus')
    e.wait_for(lambda: len(pods_on(e, 0)) == 3)
    found = [(h['pod'], h['vgpu']) for n, h, _ in samples(e.page()) if n == 'DCGM_FI_DEV_POWER_USAGE']
    assert found == [('a', '0'), ('a', '3'), ('b', '1'), ('c', '2')]


def test_mig_instances(exporter, kubelet):
    k = kubelet()
    e = exporter(scenario=os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'stubs', 'nvml', 'scenarios', 'mig.txt'))
    e.wait_for(lambda: e.values('profgpu_kubelet_up') == [1])
    instances = [h for n, h, _ in samples(e.page()) if n == 'DCGM_FI_DEV_FB_USED' and 'GPU_I_ID' in h]
    assert len(instances) > 1
    first, last = instances[0], instances[-1]
    k.answer = listed(pod('a', first['UUID'], resource='nvidia.com/mig-1g.10gb'), pod('b', f'nvidia{last["gpu"]}/gi{last["GPU_I_ID"]}'))

    def found():
        return {(h['gpu'], h.get('GPU_I_ID')): h['pod'] for n, h, _ in samples(e.page()) if n == 'DCGM_FI_DEV_FB_USED' and 'pod' in h}

    e.wait_for(lambda: found() == {(first['gpu'], first['GPU_I_ID']): 'a', (last['gpu'], last['GPU_I_ID']): 'b'})


def test_dcgm_exporters_variables(path, kubelet):
    kubelet(listed(pod('a', 'nvidia0', resource='nvidia.com/a100'), pod('b', 'nvidia0')))
    e = Exporter('--backend', REPLAY, env={'DCGM_EXPORTER_KUBERNETES': 'true', 'DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE': 'device-name',
                                           'DCGM_POD_RESOURCES_KUBELET_SOCKET': path, 'NVIDIA_RESOURCE_NAMES': 'nvidia.com/a100',
                                           'KUBERNETES_VIRTUAL_GPUS': 'true'})
    try:
        e.wait_for(lambda: [p for _, p, _ in pods_on(e, 0)] == ['a', 'b'])
        assert e.end()[0] == 0 and 'without effect' not in ''.join(e.error)
    finally:
        e.kill()


def test_no_socket_is_said_once(exporter, path, kubelet):
    e = exporter()
    time.sleep(2.5)
    assert e.values('profgpu_kubelet_up') == [0] and 'last_success' not in ''.join(x for x in e.page().splitlines() if 'kubelet' in x)
    assert 'pod=' not in e.page() and e.get('/health')[::2] == (200, b'OK\n')
    kubelet(listed(pod('a', GPU[0])))   # a kubelet that begins later
    e.wait_for(lambda: pods_on(e, 0) == [('team', 'a', 'main')])
    assert e.end()[0] == 0 and ''.join(e.error).count('No such file or directory; series have no pod labels until it exists') == 1
    e = Exporter('--backend', REPLAY)   # nobody asked for pods
    try:
        assert 'kubelet' not in e.wait_ready().page()
    finally:
        e.kill()


def test_a_kubelet_that_hangs(exporter, kubelet):
    k = kubelet(listed(pod('a', GPU[0])))
    e = exporter()
    e.wait_for(lambda: pods_on(e, 0) == [('team', 'a', 'main')])
    k.answer = k.hang
    good_at = e.values('profgpu_kubelet_last_success_timestamp_seconds')[0]
    e.wait_for(lambda: e.values('profgpu_kubelet_up') == [0])
    begun = time.monotonic()
    for _ in range(50):
        assert pods_on(e, 0) == [('team', 'a', 'main')]   # of the last answer
    assert time.monotonic() - begun < 100, 'it would be five seconds each'
    assert good_at <= e.values('profgpu_kubelet_last_success_timestamp_seconds')[0] < time.time() - 4
    status, _, body = e.get('/health')
    assert status == 200 and body.startswith(b'OK\nkubelet: does not answer within 5 s, for ')
    k.answer = listed(pod('b', GPU[0]))
    e.wait_for(lambda: pods_on(e, 0) == [('team', 'b', 'main')])
    asked, k.answer = len(k.asked), k.hang
    e.wait_for(lambda: len(k.asked) > asked)
    code, seconds = e.end()   # in the middle of a request
    assert code == 0 and seconds < 5
    told = [line for line in e.error if 'kubelet' in line]
    assert told == ['profgpu: exporter: the kubelet: does not answer within 5 s\n', 'profgpu: exporter: the kubelet answers again\n']


def test_a_kubelet_that_restarts(exporter, kubelet, path):
    k = kubelet(listed(pod('a', GPU[0])))
    e = exporter()
    e.wait_for(lambda: pods_on(e, 0) == [('team', 'a', 'main')])
    k.stop()
    e.wait_for(lambda: e.values('profgpu_kubelet_up') == [0])
    assert pods_on(e, 0) == [('team', 'a', 'main')]
    assert f'kubelet: {path} is gone, for ' in e.get('/health')[2].decode()
    kubelet(listed(pod('b', GPU[0])))
    e.wait_for(lambda: pods_on(e, 0) == [('team', 'b', 'main')])
    assert e.get('/health')[::2] == (200, b'OK\n')


def refusal(context):
    context.abort(grpc.StatusCode.UNIMPLEMENTED, 'no such\n\x1b[31mmethod')


@pytest.mark.parametrize('answer, told', [
    (refusal, 'answers with gRPC status 12: no such'),
    (listed(pod('a', GPU[0]))[:-3], 'its list of pods is damaged'),
    (os.urandom(5000), 'its list of pods is damaged'),
    (b'\0' * ((16 << 20) + 1), 'answers with more than 16 MB'),
], ids=['refused', 'cut', 'random', 'huge'])
def test_answers_that_are_none(exporter, kubelet, answer, told):
    k = kubelet(answer)
    e = exporter()
    e.wait_for(lambda: told in e.get('/health')[2].decode())
    assert '\x1b' not in e.get('/health')[2].decode()
    assert pods_on(e, 0) == [NONE] and e.values('profgpu_kubelet_up') == [0]
    k.answer = listed(pod('a', GPU[0]))
    e.wait_for(lambda: pods_on(e, 0) == [('team', 'a', 'main')])
    assert e.end()[0] == 0 and len([x for x in e.error if 'kubelet' in x]) == 2


@pytest.mark.parametrize('reply, told', [
    (b'', 'closes the connection without an answer'),
    (b'HTTP/1.1 400 Bad Request\r\n\r\n', 'does not speak HTTP/2'),
    (os.urandom(1 << 20), ''),
    (b'\0\0\0\4\0\0\0\0\0' * 100_000, ''),                          # settings, again and again
    (b'\0\0\0\4\0\0\0\0\0' + b'\0\x40\0\1\0\0\0\0\1' + b'\x00' * 5, ''),    # headers that never end
    (b'\0\0\0\4\0\0\0\0\0' + b'\0\0\x08\7\0\0\0\0\0' + b'\0' * 8, ''),      # the connection is given up
    (None, 'does not answer within 5 s'),
], ids=['closed', 'http1', 'random', 'settings', 'cut', 'goaway', 'silent'])
def test_sockets_that_are_no_kubelet(exporter, path, reply, told):
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    kept = []

    def serve():
        while True:
            try:
                connection = listening.accept()[0]
            except OSError:
                return
            kept.append(connection)
            if reply is None:
                continue
            try:
                connection.sendall(reply)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1000)
            except OSError:
                pass
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        e = exporter()
        e.wait_for(lambda: b'kubelet: ' in e.get('/health')[2] and told in e.get('/health')[2].decode())
        assert pods_on(e, 0) == [NONE] and e.values('profgpu_kubelet_up') == [0]
        assert e.end()[0] == 0
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
        for connection in kept:
            connection.close()


def test_hostile_names(exporter, kubelet):
    names = ['a"b', 'c\\d', 'e\nDCGM_FI_DEV_POWER_USAGE{gpu="0"} 1', '} 5 #', 'ü‮', '<script>', '']
    kubelet(listed(*(pod(n, GPU[0], namespace=n, container=n) for n in names),
                   field(1, b'\xc3\x28') + field(3, field(2, field(2, GPU[0])))))
    e = exporter('--kubernetes-virtual-gpus')
    e.wait_for(lambda: len(pods_on(e, 0)) == len(names) + 1)
    seen = {h.get('pod', '').replace('\\n', '\n').replace('\\"', '"').replace('\\\\', '\\') for n, h, _ in samples(e.page()) if n == 'DCGM_FI_DEV_POWER_USAGE' and h['gpu'] == '0'}
    assert seen == set(names) | {'�('}
    assert '<script>' not in e.get('/')[2].decode()
    keys = [line.rsplit(' ', 1)[0] for line in e.page().splitlines() if not line.startswith('#')]
    assert len(keys) == len(set(keys))


def test_ten_thousand_pods(exporter, kubelet):
    k = kubelet(listed(*(pod(f'p{i:05}', f'GPU-other-{i}') for i in range(9_990)), *(pod(f'q{i}', f'{GPU[0]}::{i}') for i in range(10))))
    e = exporter()
    e.wait_for(lambda: len(pods_on(e, 0, 'profgpu_device_pod_info')) == 10)
    asked = len(k.asked)
    e.wait_for(lambda: len(k.asked) >= asked + 3)
    assert pods_on(e, 0) == [('team', 'q0', 'main')]
    assert e.values('profgpu_kubelet_up') == [1]
    assert e.resident_kb() < 20_000   # a bound on leaks and copies; figures are bench/exporter.py's
