"""Debian's Prometheus and promtool on what `profgpu exporter` says, on the alerts and on the dashboard that come with it."""
import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request

import pytest

from conftest import ROOT
from exporter_page import REPLAY, STUB, Exporter

RULES = os.path.join(ROOT, 'deploy', 'profgpu.rules.yml')
DASHBOARD = os.path.join(ROOT, 'deploy', 'grafana-dashboard.json')
pytestmark = pytest.mark.skipif(not (shutil.which('prometheus') and shutil.which('promtool')),
                                reason='prometheus is not installed (scripts/install check)')

# All that the dashboard shows, hot and held back; the second device is lost after some seconds.
SCENARIO = '''device 0..1
name NVIDIA H100 80GB HBM3
utilization 80
memory_used 42949672960
power 640
temperature 86
reasons 64
pcie_tx count 0 2e9
pcie_rx count 0 12e9
links 18 switch
nvlink_tx count 0 90e9
nvlink_rx count 0 90e9
gpm_tensor 52
gpm_dram 40
ecc_uncorrected 0
remapped_failed 0
process 4711 C memory=4000000000
device 1
xid 79 8
lost 8
'''


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(('127.0.0.1', 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


@pytest.fixture(scope='module')
def scraped(tmp_path_factory):
    """(exporter, ask) where ask(query) is what Prometheus, which scrapes the exporter every second, answers."""
    folder = tmp_path_factory.mktemp('prometheus')
    (folder / 'scenario.txt').write_text(SCENARIO)
    env = {'PROFGPU_NVML_LIBRARY': STUB, 'PROFGPU_NVML_SCENARIO': str(folder / 'scenario.txt'), 'NODE_NAME': 'node1'}
    port, exporter_port = free_ports(2)
    (folder / 'fast.rules.yml').write_text(re.sub(r'for: \d+[ms]', 'for: 1s', open(RULES).read()).replace('slowdown"}[5m]', 'slowdown"}[5s]'))
    (folder / 'prometheus.yml').write_text(f'''
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [fast.rules.yml]
scrape_configs:
  - job_name: profgpu
    static_configs: [{{targets: ['127.0.0.1:{exporter_port}']}}]
''')
    log = open(folder / 'log', 'w')
    prometheus = subprocess.Popen(['prometheus', f'--config.file={folder}/prometheus.yml', f'--storage.tsdb.path={folder}/data',
                                   f'--web.listen-address=127.0.0.1:{port}'], stdout=log, stderr=log)

    def ask(query, path='query'):
        url = f'http://127.0.0.1:{port}/api/v1/{path}' + ('?' + urllib.parse.urlencode({'query': query}) if query else '')
        with urllib.request.urlopen(url, timeout=10) as reply:
            answer = json.load(reply)
        assert answer['status'] == 'success', answer
        return answer['data'] if path != 'query' else answer['data']['result']

    def wait_for(query, seconds=60):
        end = time.monotonic() + seconds
        while True:
            try:
                if found := ask(query):
                    return found
            except OSError:
                pass   # it is still starting
            assert time.monotonic() < end and prometheus.poll() is None, f'{query}\n{open(folder / "log").read()[-3000:]}'
            time.sleep(0.3)

    ask.wait_for = wait_for
    exporter = None
    try:
        # First, so that it sees the devices before one is lost.
        wait_for('up')
        exporter = Exporter('--backend', 'nvml', '-i', '0.2', env=env, port=exporter_port)
        wait_for('count_over_time(profgpu_device_up[10s]) >= 4')
        yield exporter, ask
    finally:
        prometheus.terminate()
        prometheus.wait()
        if exporter:
            exporter.kill()


def check_metrics(text):
    r = subprocess.run(['promtool', 'check', 'metrics'], input=text, capture_output=True, text=True)
    assert r.returncode in (0, 3), r.stderr   # 1: it cannot be parsed; 3: style
    return (r.stdout + r.stderr).splitlines()


def test_promtool_finds_nothing_but_dcgms_style(scraped):
    complaints = check_metrics(scraped[0].page())
    assert complaints and all(line.startswith('DCGM_') for line in complaints), complaints


def test_own_names_are_clean():
    e = Exporter('--backend', REPLAY, '--dcgm-names', 'off')
    try:
        assert check_metrics(e.wait_ready().page()) == []
    finally:
        e.kill()


def test_prometheus_asks_for_openmetrics(scraped):
    _, ask = scraped
    target = ask('', 'targets')['activeTargets'][0]
    assert target['health'] == 'up' and target['lastError'] == ''
    # Under its name without "_total", as OpenMetrics has it.
    assert {e['type'] for e in ask('', 'metadata')['profgpu_energy_joules']} == {'counter'}
    assert {e['type'] for e in ask('', 'metadata')['DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION']} == {'unknown'}


# The queries of Grafana's dashboard 12239, "NVIDIA DCGM Exporter Dashboard", as it has them.
POPULAR = ['DCGM_FI_DEV_GPU_TEMP', 'avg(DCGM_FI_DEV_GPU_TEMP)', 'DCGM_FI_DEV_POWER_USAGE', 'sum(DCGM_FI_DEV_POWER_USAGE)',
           'DCGM_FI_DEV_SM_CLOCK * 1000000', 'DCGM_FI_DEV_GPU_UTIL', 'DCGM_FI_DEV_FB_USED', 'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE']


def test_the_popular_dashboard_works_unchanged(scraped):
    exporter, ask = scraped
    for query in POPULAR:
        query = re.sub(r'(DCGM_\w+)', rf'\1{{instance=~"127.0.0.1:{exporter.port}",gpu=~"(0|1)"}}', query)
        assert ask.wait_for(query), query
    assert float(ask('DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0"}')[0]['value'][1]) == pytest.approx(0.52)


def test_our_dashboard_has_data(scraped):
    exporter, ask = scraped
    ask.wait_for('increase(profgpu_xid_errors_total{xid="79"}[30s]) > 0')
    with open(DASHBOARD) as f:
        dashboard = json.load(f)
    queries = [t['expr'] for p in dashboard['panels'] for t in p['targets']]
    assert len(queries) > 15
    for query in queries:
        for name, value in (('$__rate_interval', '20s'), ('$__range', '1m'), ('$instance', '.*'), ('$gpu', '.*')):
            query = query.replace(name, value)
        assert '$' not in query
        assert ask.wait_for(query, seconds=20), query
    for variable in dashboard['templating']['list'][1:]:
        metric, label = re.fullmatch(r'label_values\((\w+)(?:\{.*\})?, (\w+)\)', variable['definition']).groups()
        assert label in ask(metric)[0]['metric']


def test_alerts_fire_on_a_real_prometheus(scraped):
    exporter, ask = scraped
    for alert, labels in (('ProfgpuDeviceLost', 'gpu="1"'), ('ProfgpuXidCritical', 'gpu="1",xid="79"'),
                          ('ProfgpuThrottled', 'gpu="0",reason="hw_thermal_slowdown"'), ('ProfgpuOverTemperature', 'gpu="0"')):
        ask.wait_for(f'ALERTS{{alertname="{alert}",alertstate="firing",{labels}}}')
    assert not ask('ALERTS{alertname=~"ProfgpuRowRemapFailed|ProfgpuUncorrectableEcc|ProfgpuMemoryNearlyFull|ProfgpuExporterStale"}')
    assert not ask('ALERTS{alertname="ProfgpuDeviceLost",gpu="0"}')


def test_rules():
    checked = subprocess.run(['promtool', 'check', 'rules', RULES], capture_output=True, text=True)
    assert checked.returncode == 0 and '9 rules found' in checked.stdout, checked.stdout + checked.stderr
    tested = subprocess.run(['promtool', 'test', 'rules', os.path.join(ROOT, 'tests', 'prometheus', 'rules_test.yml')],
                            capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout + tested.stderr
