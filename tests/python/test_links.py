"""nccl-tests, all_reduce_bench and NCCL's own log: real ones against regular expressions, and made ones."""
import json
import os
import re
import statistics

import pytest

from conftest import ROOT

SHARED = os.path.join(ROOT, '..', 'shared', 'logs')
TABLE = '''# nThread 1 nGpus 8 minBytes 1024 maxBytes 1073741824 step: 1024(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   1000 on      node1 device  0 [0x07] NVIDIA H100 80GB HBM3
#  Rank  7 Group  0 Pid   1000 on      node1 device  7 [0xdf] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    20.50    0.05    0.09      0    20.10    0.05    0.09    N/A
     1048576        262144     float     sum      -1    50.00   20.97   36.70      0    49.00   21.40   37.45      {wrong}
  1073741824     268435456     float     sum      -1   4000.0  268.44  469.76      0   3990.0  269.11  470.94      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 169.172
#
'''


def report_of(profgpu, *paths):
    run = profgpu('analyze', *map(str, paths), '--json')
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def shared(name):
    path = os.path.join(SHARED, name)
    if not os.path.exists(path):
        pytest.skip('the real logs are not here')
    with open(path, errors='replace') as f:
        return path, f.read()


def test_the_real_table(profgpu):
    path, text = shared('nccl-tests.log')
    # Rows are cut by NCCL's lines: put them together again.
    plain = re.sub(r'mew0:\d+:\d+ \[\d\] NCCL INFO .*\n', '', text)
    rows = re.findall(r'^ +(\d+) +(\d+) +float +sum +-1 +([\d.]+) +([\d.]+) +([\d.]+) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +(\d+)', plain, re.M)
    assert len(rows) == 11
    log, = report_of(profgpu, path)['logs']
    expected = sorted((int(r[0]), place, round(float(r[2 + 4 * place]) * 1e3), float(r[3 + 4 * place]), float(r[4 + 4 * place]))
                      for r in rows for place in (0, 1))
    got = sorted((r['bytes'], int(r['in_place']), r['time_ns'], r['algbw_gbps'], r['busbw_gbps']) for r in log['link_rates'])
    assert got == expected
    link, = log['links']
    assert link['op'] == 'all_reduce' and link['ranks'] == 2 and link['wrong'] == 0
    assert link['mean_busbw_gbps'] == pytest.approx(178.078, abs=0.01)
    assert link['peak_busbw_gbps'] == max(e[4] for e in expected)


def test_the_real_debug_log(profgpu):
    path, text = shared('nccl-tests.log')
    nccl = report_of(profgpu, path)['logs'][0]['nccl']
    assert nccl['version'] == re.search(r'NCCL version (\S+)', text).group(1)
    assert nccl['lines'] == len(re.findall(r'NCCL (?:INFO|WARN) ', text))
    assert (nccl['network'], nccl['ranks'], nccl['channels']) == ('IB', 2, 24)
    ways = re.findall(r'Channel \S+ : \S+ -> \S+ via (\S.*)/read', text)
    assert {t['transport']: t['connections'] for t in nccl['transports']} == {w: ways.count(w) for w in set(ways)}
    disabled, = (r for r in nccl['remarks'] if r['kind'] == 'no_gpu_direct_rdma')
    assert disabled['count'] == text.count('GPU Direct RDMA Disabled')


def test_the_real_benchmark(profgpu):
    path, text = shared('all-reduce-bench-a100.txt')
    rates = [float(x) / 8 for x in re.findall(r'^ *busbw: ([\d.]+) +Gbps', text, re.M)]
    log, = report_of(profgpu, path)['logs']
    row, = log['link_rates']
    assert (row['op'], row['ranks'], row['bytes'], row['measurements']) == ('all_reduce', 32, 4_000_000_000, len(rates))
    assert row['busbw_gbps'] == pytest.approx(statistics.median(rates))
    assert log['nccl']['ranks'] == 32 and any(t['transport'] == 'NET/IB' for t in log['nccl']['transports'])


def test_floor_half_and_peak(profgpu, tmp_path):
    path = tmp_path / 'nccl.log'
    path.write_text('all_reduce_perf -b 1K -e 1G -f 1024 -g 8\n' + TABLE.format(wrong=0))
    report = report_of(profgpu, path)
    link, = report['logs'][0]['links']
    assert link == {'op': 'all_reduce', 'ranks': 8, 'latency_ns': 20100, 'peak_busbw_gbps': 470.94, 'half_bytes': 1 << 30,
                    'mean_busbw_gbps': pytest.approx(169.172, abs=0.01), 'wrong': 0}
    assert report['findings'] == [] and '470.9 GB/s' in report['verdict']


def test_wrong_elements_are_critical(profgpu, tmp_path):
    path = tmp_path / 'nccl.log'
    path.write_text('all_reduce_perf -g 8\n' + TABLE.format(wrong=12))
    finding, = (f for f in report_of(profgpu, path)['findings'] if f['rule'] == 'wrong-results')
    assert finding['value'] == 12 and finding['severity'] == 'critical'


@pytest.mark.parametrize('lines, words', [
    (['Using network Socket', 'comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0',
      'Channel 00/0 : 7[7] -> 8[0] [send] via NET/Socket/0'], 'TCP sockets'),
    (['Using network IB', "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", 'Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0'], 'GPUDirect'),
    (['NCCL_P2P_DISABLE set by environment to 1.', 'Channel 00 : 0[0] -> 1[1] via SHM/direct/direct'], 'shared memory'),
    (['P2P is disabled between connected GPUs 1 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.'], 'directly')])
def test_slow_ways_are_found(profgpu, tmp_path, lines, words):
    path = tmp_path / 'nccl.log'
    path.write_text(''.join(f'node1:100:200 [0] NCCL INFO {line}\n' for line in ['NCCL version 2.21.5+cuda12.4'] + lines))
    finding, = (f for f in report_of(profgpu, path)['findings'] if f['rule'] == 'slow-transport')
    assert words in finding['what']


def test_a_good_way_is_silent(profgpu, tmp_path):
    path = tmp_path / 'nccl.log'
    path.write_text(''.join(f'node1:100:200 [0] NCCL INFO {line}\n' for line in [
        'NCCL version 2.21.5+cuda12.4', 'Using network IB', 'Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA',
        'Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read']))
    report = report_of(profgpu, path)
    assert report['findings'] == []
    assert {t['transport'] for t in report['logs'][0]['nccl']['transports']} == {'NET/IB/GDRDMA', 'P2P/CUMEM'}


def test_warnings_are_found(profgpu, tmp_path):
    path = tmp_path / 'nccl.log'
    path.write_text('node1:1:2 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n'
                    'node1:1:2 [0] transport/net_ib.cc:1332 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4321> with status=12 opcode=0\n')
    finding, = (f for f in report_of(profgpu, path)['findings'] if f['rule'] == 'nccl-warnings')
    assert 'line 2' in finding['evidence'][0]


def test_a_table_of_payloads(profgpu, tmp_path):
    path = tmp_path / 'bench.txt'
    path.write_text('|  payload |    busbw   |    algbw   |\n| -------: | ---------: | ---------: |\n'
                    '|     32KB |   0.92GBps |   0.46GBps |\n|      1GB | 240.50GBps | 120.25GBps |\n')
    rows = report_of(profgpu, path)['logs'][0]['link_rates']
    assert [(r['bytes'], r['busbw_gbps'], r['algbw_gbps']) for r in rows] == [(32768, 0.92, 0.46), (1 << 30, 240.5, 120.25)]
