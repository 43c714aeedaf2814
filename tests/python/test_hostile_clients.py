"""The exporter under clients that mean it no good: smuggled lengths, pipelines, floods, silence, other sites' pages, guessed passwords.

After each attack the server answers a good client, holds no more memory and no more descriptors than before, and has said no secret.
ATTACK_CONNECTIONS (600) is how many connections the flood opens; `make hostile` takes 10,000.
"""
import base64
import os
import re
import socket
import ssl
import threading
import time

import pytest

from exporter_page import REPLAY, Exporter
from test_exporter import raw
from test_exporter_tls import HASH, TLS, keys  # noqa: F401  (a fixture)

CONNECTIONS = int(os.environ.get('ATTACK_CONNECTIONS', '600'))
HOST = b'Host: localhost\r\n'


def descriptors(e):
    return len(os.listdir(f'/proc/{e.process.pid}/fd'))


def cpu_seconds(e):
    with open(f'/proc/{e.process.pid}/stat') as f:
        return sum(map(int, f.read().rsplit(')', 1)[1].split()[11:13])) / os.sysconf('SC_CLK_TCK')


@pytest.fixture(scope='module')
def server():
    e = Exporter('--backend', REPLAY).wait_ready()
    yield e
    e.kill()


@pytest.fixture
def holds(server):
    """The server, which must be as it was when the test is over."""
    before = descriptors(server), server.resident_kb()
    yield server
    assert server.process.poll() is None
    server.wait_for(lambda: descriptors(server) <= before[0] + 1)   # the one that asks
    assert server.resident_kb() < before[1] + (4 << 10)
    assert server.get('/health')[0] == 200


def replies(reply):
    return re.findall(rb'HTTP/1\.[01] (\d{3}) ', reply)


# What a server in front could take for one request, and ours for two: each must be refused, and what follows not be read.
SMUGGLED = {
    'two lengths': b'Content-Length: 0\r\nContent-Length: 44\r\n',
    'a list of lengths': b'Content-Length: 0, 44\r\n',
    'length and chunks': b'Content-Length: 0\r\nTransfer-Encoding: chunked\r\n',
    'chunks and length': b'Transfer-Encoding: chunked\r\nContent-Length: 0\r\n',
    'an encoding that is not known': b'Transfer-Encoding: gzip\r\n',
    'chunks that are not last': b'Transfer-Encoding: chunked, identity\r\n',
    'a tab in chunked': b'Transfer-Encoding: \x0bchunked\r\n',
    'quoted': b'Transfer-Encoding: "chunked"\r\n',
    'blank before the colon': b'Transfer-Encoding : chunked\r\n',
    'a negative length': b'Content-Length: -1\r\n',
    'a length with a sign': b'Content-Length: +44\r\n',
    'a length in hex': b'Content-Length: 0x2c\r\n',
    'a length beyond 64 bits': b'Content-Length: 18446744073709551660\r\n',
    'a length of nothing': b'Content-Length: \r\n',
    'a bare carriage return': b'X: a\rContent-Length: 44\r\n',
    'a zero byte': b'X: a\0b\r\n',
    'no colon': b'Transfer-Encoding\r\n',
}


@pytest.mark.parametrize('name', SMUGGLED)
def test_smuggled_lengths(holds, name):
    reply = raw(holds.port, b'GET /health HTTP/1.1\r\n' + HOST + SMUGGLED[name] + b'\r\nGET /-/ready HTTP/1.1\r\n' + HOST + b'\r\n')
    assert [code[:1] for code in replies(reply)] == [b'4'], reply
    assert not reply.endswith(b'(open)'), 'the connection is closed'


@pytest.mark.parametrize('head', [b'GET /health HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n', b'GET /health HTTP/1.1\r\n',
                                  b'GET  /health HTTP/1.1\r\n' + HOST, b'GET /health HTTP/1.1 \r\n' + HOST, b'GET /a b HTTP/1.1\r\n' + HOST,
                                  b'G\x00T /health HTTP/1.1\r\n' + HOST, b'get /health HTTP/1.1\r\n' + HOST, b'PRI * HTTP/2.0\r\n',
                                  b'GET /health HTTP/1.1\r\n: x\r\n' + HOST, b'GET /health HTTP/1.10\r\n' + HOST, b'CONNECT a:1 HTTP/1.1\r\n' + HOST])
def test_heads_that_are_none(holds, head):
    reply = raw(holds.port, head + b'\r\n')
    assert [code[:1] for code in replies(reply)] == [b'4'], reply


def test_a_pipeline_is_answered_in_order_and_bounded(holds):
    """A thousand requests at once, by a client that reads late."""
    paths = [b'/health', b'/-/ready', b'/nowhere'] * 334
    with socket.create_connection(('127.0.0.1', holds.port), timeout=60) as s:
        threading.Thread(target=s.sendall, args=(b''.join(b'GET ' + p + b' HTTP/1.1\r\n' + HOST + b'\r\n' for p in paths),)).start()
        time.sleep(0.5)
        reply = b''
        while len(replies(reply)) < len(paths) and (part := s.recv(1 << 16)):
            reply += part
    assert replies(reply) == [b'200', b'200', b'404'] * 334


def test_clients_that_do_not_read(holds):
    """Pages are asked for and never taken: the others are answered, and no copies pile up."""
    idle = []
    try:
        for _ in range(100):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            s.connect(('127.0.0.1', holds.port))
            s.sendall((b'GET /metrics HTTP/1.1\r\n' + HOST + b'\r\n') * 20)
            idle.append(s)
        before = holds.resident_kb()
        for _ in range(20):
            assert holds.get('/metrics')[0] == 200
        assert holds.resident_kb() < before + (16 << 10)
    finally:
        for s in idle:
            s.close()


def test_headers_without_end(holds):
    for endless in (b'X: y\r\n' * 100_000, b'X' * 1_000_000, b'\r\n' * 100_000, b'\0' * 1_000_000):
        with socket.create_connection(('127.0.0.1', holds.port), timeout=30) as s:
            reply = b''
            try:
                s.sendall(b'GET /health HTTP/1.1\r\n' + endless)
                while part := s.recv(4096):
                    reply += part
            except ConnectionError:
                pass
            assert [code[:1] for code in replies(reply)] in ([b'4'], []), reply


def test_a_flood_of_connections(server, record_property):
    """Clients that connect and are silent; then all leave at once."""
    record_property('connections', CONNECTIONS)
    room = server.resident_kb()
    flood = []
    try:
        for _ in range(CONNECTIONS):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(('127.0.0.1', server.port))
            flood.append(s)
        begun = time.monotonic()
        assert server.get('/health')[0] == 200
        assert time.monotonic() - begun < 60
        assert server.values('profgpu_exporter_connections')[0] <= 256
        assert descriptors(server) < 300
    finally:
        for s in flood:
            s.close()
    server.wait_for(lambda: descriptors(server) < 40)
    assert server.resident_kb() < room + (16 << 10)


def test_few_descriptors():
    """Where no descriptor is left for a connection, it waits for one, and the processor does not spin."""
    import resource
    e = Exporter('--backend', REPLAY).wait_ready()
    try:
        resource.prlimit(e.process.pid, resource.RLIMIT_NOFILE, (descriptors(e) + 5, 20000))
        waiting = [socket.create_connection(('127.0.0.1', e.port)) for _ in range(40)]
        time.sleep(0.3)
        before = cpu_seconds(e)
        time.sleep(1)
        assert cpu_seconds(e) - before < 0.5, 'half a core'
        for s in waiting:
            s.close()
        assert e.get('/health')[0] == 200
    finally:
        e.kill()


# Pages of other sites, in the browser of a person who works on this machine: a name that was bound to 127.0.0.1 (DNS rebinding).

@pytest.mark.parametrize('head, code', [
    (b'Host: evil.example\r\n', 403), (b'Host: evil.example:80\r\n', 403), (b'Host: localhost.evil.example\r\n', 403), (b'Host: 127.0.0.1.evil.example\r\n', 403),
    (HOST + b'Origin: http://evil.example\r\n', 403), (HOST + b'Origin: null\r\n', 403), (b'Host: \r\n', 403),
    (HOST, 200), (b'Host: LOCALHOST:9400\r\n', 200), (b'Host: 127.0.0.1:9400\r\n', 200), (b'Host: 10.1.2.3\r\n', 200), (b'Host: [::1]:9400\r\n', 200),
    (b'Host: ' + socket.gethostname().encode() + b':9400\r\n', 200), (HOST + b'Origin: http://localhost:3000\r\n', 200)])
def test_other_sites_pages(holds, head, code):
    reply = raw(holds.port, b'GET /metrics HTTP/1.1\r\n' + head + b'Connection: close\r\n\r\n')
    assert replies(reply) == [str(code).encode()], reply[:300]
    assert (b'profgpu_power_watts' in reply) == (code == 200)


def test_all_interfaces_take_any_name():
    """Who listens for the network is asked by the machine's names, whatever they are."""
    e = Exporter('--backend', REPLAY, '--listen', ':0')
    try:
        assert replies(raw(e.port, b'GET /health HTTP/1.1\r\nHost: node1.cluster\r\nConnection: close\r\n\r\n')) in ([b'200'], [b'503'])
    finally:
        e.kill()


def refuse(e, user, password):
    request = b'GET /health HTTP/1.1\r\n' + HOST + b'Connection: close\r\nAuthorization: Basic ' + base64.b64encode(f'{user}:{password}'.encode()) + b'\r\n\r\n'
    assert replies(raw(e.port, request)) == [b'401']


def test_the_time_of_a_refusal_tells_no_user(tmp_path):
    """Users whose passwords are hashed at different costs, and one whom nobody knows: each refusal takes the time of the slowest. CPU time: what else
    the machine does is no part of it."""
    (tmp_path / 'web.yml').write_text("basic_auth_users:\n"
                                      f"  alice: {HASH.replace('$2y$05$', '$2y$04$')}\n  carol: {HASH.replace('$2y$05$', '$2y$10$')}\n")
    e = Exporter('--backend', REPLAY, '--web.config.file', tmp_path / 'web.yml')
    try:
        took = dict.fromkeys(('alice', 'bob', 'carol'), 0.0)
        for i in range(10):
            for user in took:
                before = cpu_seconds(e)
                refuse(e, user, f'guess{i}')
                took[user] += cpu_seconds(e) - before
        assert max(took.values()) < 1.7 * min(took.values()), took
        assert not any('guess' in line for line in e.error)
    finally:
        e.kill()


def test_guesses_do_not_keep_the_rightful_out(tmp_path):
    (tmp_path / 'web.yml').write_text(f'basic_auth_users:\n  alice: {HASH}\n')
    e = Exporter('--backend', REPLAY, '--web.config.file', tmp_path / 'web.yml')
    rightful = {'Authorization': 'Basic ' + base64.b64encode(b'alice:secret').decode()}
    try:
        assert e.get('/metrics', rightful)[0] == 200
        guess = b'GET /health HTTP/1.1\r\n' + HOST + b'Authorization: Basic ' + base64.b64encode(b'alice:wrong') + b'\r\n\r\n'
        flood = [socket.create_connection(('127.0.0.1', e.port)) for _ in range(100)]
        for s in flood:
            s.sendall(guess)
        begun = time.monotonic()
        assert e.get('/metrics', rightful)[0] == 200 and time.monotonic() - begun < 10
        for s in flood:
            s.close()
        for given in (b'', b'Basic', b'Basic ', b'Basic !!!!', b'Basic ' + b'A' * 8000, b'basic ' + base64.b64encode(b'alice'),
                      b'Basic ' + base64.b64encode(b'alice:secret\0x'), b'Basic ' + base64.b64encode(b':'), b'Bearer x', b'Digest username="alice"'):
            reply = raw(e.port, b'GET /metrics HTTP/1.1\r\n' + HOST + b'Authorization: ' + given + b'\r\n\r\n')
            assert replies(reply) in ([b'401'], [b'503']) and b'DCGM_' not in reply, given
    finally:
        e.kill()


def test_half_of_a_tls_handshake(keys):  # noqa: F811
    (keys / 'web.yml').write_text(TLS)
    e = Exporter('--backend', REPLAY, '--web.config.file', keys / 'web.yml')
    context = ssl.create_default_context(cafile=keys / 'ca.crt')
    try:
        def good():
            with socket.create_connection(('127.0.0.1', e.port), timeout=60) as s, context.wrap_socket(s, server_hostname='localhost') as t:
                t.sendall(b'GET /-/ready HTTP/1.1\r\n' + HOST + b'Connection: close\r\n\r\n')
                return replies(t.recv(4096))

        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        with pytest.raises(ssl.SSLWantReadError):
            context.wrap_bio(incoming, outgoing, server_hostname='localhost').do_handshake()
        hello = outgoing.read()
        before = descriptors(e)
        for cut in (0, 1, 5, 6, 40, len(hello) // 2, len(hello) - 1, len(hello)):
            with socket.create_connection(('127.0.0.1', e.port)) as s:
                s.sendall(hello[:cut])
        for i in range(0, len(hello), 7):
            with socket.create_connection(('127.0.0.1', e.port)) as s:
                s.sendall(hello[:i] + bytes([hello[i] ^ 0xff]) + hello[i + 1:])
        for other in (b'GET / HTTP/1.1\r\n\r\n', os.urandom(5000), b'\x16\x03\x01\xff\xff' + b'\0' * 65535, hello * 50):
            with socket.create_connection(('127.0.0.1', e.port)) as s:
                try:
                    s.sendall(other)
                except ConnectionError:
                    pass
        half = [socket.create_connection(('127.0.0.1', e.port)) for _ in range(300)]   # more than may be open
        for s in half:
            try:
                s.sendall(hello[:-1])
            except ConnectionError:
                pass
        assert good() in ([b'200'], [b'503'])
        for s in half:
            s.close()
        e.process.poll()
        deadline = time.monotonic() + 60
        while descriptors(e) > before + 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert good() in ([b'200'], [b'503'])
    finally:
        e.kill()
