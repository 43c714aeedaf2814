"""profgpu exporter --web.config.file: TLS and basic authentication, asked by curl."""
import os
import shutil
import subprocess
import time

import pytest

from exporter_page import REPLAY, Exporter

# Of "secret", at the lowest cost; with the prefix that htpasswd writes.
HASH = '$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a'


@pytest.fixture(scope='module')
def keys(tmp_path_factory):
    """A folder with a certificate authority, a server's certificate for localhost and a client's, and their keys."""
    folder = tmp_path_factory.mktemp('keys')

    def openssl(*words):
        subprocess.run(['openssl', *words], cwd=folder, check=True, capture_output=True)

    openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', 'ca.key', '-out', 'ca.crt',
            '-days', '30', '-subj', '/CN=a test authority')
    for name, more in (('server', 'subjectAltName=DNS:localhost,IP:127.0.0.1'), ('client', 'extendedKeyUsage=clientAuth')):
        (folder / f'{name}.ext').write_text(more)
        openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', f'{name}.key', '-out', f'{name}.csr',
                '-subj', f'/CN={name}')
        openssl('x509', '-req', '-in', f'{name}.csr', '-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial', '-out', f'{name}.crt',
                '-days', '30', '-extfile', f'{name}.ext')
    return folder


@pytest.fixture
def exporter(keys):
    running = []

    def run(settings):
        path = keys / 'web.yml'
        path.write_text(settings)
        running.append(Exporter('--backend', REPLAY, '--web.config.file', path))
        return running[-1]

    yield run
    for one in running:
        one.kill()


def curl(url, *words):
    """(exit code, HTTP status, body)"""
    r = subprocess.run(['curl', '-s', '--max-time', '20', '-w', '\n%{http_code}', *map(str, words), url], capture_output=True, text=True)
    body, _, status = r.stdout.rpartition('\n')
    return r.returncode, int(status or 0), body


TLS = 'tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n'


def test_tls(exporter, keys):
    e = exporter(TLS + 'http_server_config:\n  headers:\n    Strict-Transport-Security: max-age=9\n')
    assert e.url.startswith('https://')
    trusted = ('--cacert', keys / 'ca.crt')
    code, status, body = curl(e.url + '/metrics', *trusted)
    assert (code, status) == (0, 200) and 'profgpu_device_up{' in body
    assert 'Strict-Transport-Security: max-age=9' in curl(e.url + '/health', *trusted, '-i')[2]
    assert curl(e.url + '/health')[0] == 60                                    # an authority that it does not know
    assert curl(e.url + '/health', *trusted, '--tls-max', '1.1')[0] == 35      # 1.2 is the lowest, as the toolkit's
    assert curl(e.url + '/health', *trusted, '--tls-max', '1.2')[:2] == (0, 200)
    assert curl(e.url.replace('https', 'http') + '/health')[1] == 0            # no plain text on that port
    assert curl(e.url + '/health', *trusted)[:2] == (0, 200)
    assert e.end()[0] == 0


def test_a_renewed_certificate(exporter, keys, tmp_path):
    for name in ('server.crt', 'server.key', 'ca.crt'):
        shutil.copy(keys / name, tmp_path)
    e = exporter(f'tls_server_config:\n  cert_file: {tmp_path}/server.crt\n  key_file: {tmp_path}/server.key\n')
    kept = ('--cacert', tmp_path / 'ca.crt')
    assert curl(e.url + '/health', *kept)[:2] == (0, 200)
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', 'new.key', '-out', 'new.crt', '-days', '30', '-subj',
                    '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'], cwd=tmp_path, check=True, capture_output=True)
    os.replace(tmp_path / 'new.key', tmp_path / 'server.key')   # for a moment it is not the certificate's
    time.sleep(2.5)
    assert curl(e.url + '/health', *kept)[:2] == (0, 200)
    shutil.copy(tmp_path / 'new.crt', tmp_path / 'server.crt')
    end = time.monotonic() + 60
    while curl(e.url + '/health', '--cacert', tmp_path / 'new.crt')[0] != 0:
        assert time.monotonic() < end
        time.sleep(0.5)
    assert curl(e.url + '/health', *kept)[0] == 60


def test_only_the_newest_tls(exporter, keys):
    e = exporter(TLS + '  min_version: TLS13\n')
    assert curl(e.url + '/health', '--cacert', keys / 'ca.crt', '--tls-max', '1.2')[0] == 35
    assert curl(e.url + '/health', '--cacert', keys / 'ca.crt')[:2] == (0, 200)


def test_client_certificates(exporter, keys):
    e = exporter(TLS + '  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n')
    trusted = ('--cacert', keys / 'ca.crt')
    assert curl(e.url + '/health', *trusted)[1] == 0
    assert curl(e.url + '/health', *trusted, '--cert', keys / 'client.crt', '--key', keys / 'client.key')[:2] == (0, 200)


def test_passwords(exporter):
    e = exporter(f'basic_auth_users:\n  alice: {HASH}\n')
    assert e.url.startswith('http://')
    code, status, body = curl(e.url + '/metrics', '-i')
    assert status == 401 and 'WWW-Authenticate: Basic realm="profgpu"' in body and 'profgpu_' not in body
    assert curl(e.url + '/metrics', '-u', 'alice:wrong')[1] == 401
    assert curl(e.url + '/metrics', '-u', 'bob:secret')[1] == 401
    assert curl(e.url + '/metrics', '-H', 'Authorization: Bearer x')[1] == 401
    for _ in range(3):
        assert curl(e.url + '/metrics', '-u', 'alice:secret')[1] == 200
    assert curl(e.url + '/health', '-u', 'alice:wrong')[1] == 401
    assert curl(e.url + '/-/ready')[1] == 401


def test_settings_that_are_wrong(profgpu, keys):
    def problem(settings, code):
        (keys / 'wrong.yml').write_text(settings)
        r = profgpu('exporter', '--backend', REPLAY, '--listen', '127.0.0.1:0', '--web.config.file', keys / 'wrong.yml', text=True)
        assert r.returncode == code, r.stderr
        return r.stderr

    assert 'cert_file' in problem(TLS.replace('server.crt', 'none.crt'), 1)
    assert 'No such file' in problem(TLS.replace('server.key', 'none.key'), 1)
    assert 'key_file' in problem(TLS.replace('server.key', 'client.key'), 1)
    assert 'wrong.yml: line 2: basic_auth_users: line 2: alice: expected a bcrypt hash' in problem('basic_auth_users:\n  alice: secret\n', 2)
    assert 'unknown setting' in problem('tls:\n  a: b\n', 2)
    assert 'wrong.yml: line ' in problem('a: [', 2)
