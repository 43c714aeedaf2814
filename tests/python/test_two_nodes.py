"""A job on two nodes: network, host names and clocks of their own on this machine, started by Open MPI. What they run is
simulated; that they end collectives together while their clocks differ is not."""
import json
import os
import shutil
import subprocess

import pytest
from test_job import MPIRUN, without_launcher
from test_record import PROGRAM, SIM, STUBS, environment, need, processes
from test_run import SCENARIOS, STUB as NVML

NODE_CLOCK = os.path.join(STUBS, 'libnode-clock.so')
NODES = ('n1', 'n2')
SECOND_NS = 1_000_000_000
COMMAND = (SIM, '--kernels', 0, '--steps', 30, '--step-kernels', 20, '--kernel-ns', 20_000)


def node_clock(folder, ahead_ns, errors_us=('', ''), **variables):
    """A program in front of another: on n2, that one's clock of the day is so far ahead. `errors_us`: within what the
    kernels of n1 and n2 say that their clocks are, 0: not synchronised; '' leaves it to the real one."""
    need(NODE_CLOCK)
    path = folder / 'node-clock'
    lines = [f'export {name}={value}' for name, value in variables.items()]
    for node, ahead, error in zip(NODES, (0, ahead_ns), errors_us):
        words = [f'LD_PRELOAD={NODE_CLOCK}', f'NODE_CLOCK_AHEAD_NS={ahead}', *([f'NODE_CLOCK_ERROR_US={error}'] if error != '' else [])]
        lines.append(f'[ "$(uname -n)" != {node} ] || export {" ".join(words)}')
    path.write_text('\n'.join(['#!/bin/sh', *lines, 'exec "$@"\n']))
    path.chmod(0o755)
    return path


def check_clocks(report, ahead_ns):
    """Ranks 0 and 1 ran on n1, the others on n2. Offsets are what is added to a rank's times to get rank 0's."""
    assert [(r['rank'], r['world_size'], r['host']) for r in report['ranks']] == \
        [(0, 4, 'n1'), (1, 4, 'n1'), (2, 4, 'n2'), (3, 4, 'n2')]
    clocks = report['cluster']['clocks']
    assert [c['method'] for c in clocks] == ['reference', 'same host', 'collectives', 'same host']
    for clock in clocks:
        planted = -ahead_ns if clock['rank'] >= 2 else 0
        assert abs(clock['offset_ns'] - planted) <= clock['error_ns'] < 50_000, clock


def check_statements(report, errors_us):
    """What the hosts said of their clocks, which are seconds apart."""
    clocks, notes = report['cluster']['clocks'], report['cluster']['notes']
    stated = [errors_us[0] * 1000] * 2 + [errors_us[1] * 1000 or None] * 2
    assert [c['stated_error_ns'] for c in clocks] == stated
    if errors_us[1] > 0:
        assert [c['agrees'] for c in clocks] == [True, True, False, False]
        assert any(n.startswith(f'n2 states a clock error of at most {errors_us[1] / 1000:.2f} ms, but collectives show') for n in notes), notes
    else:
        assert [c['agrees'] for c in clocks] == [None] * 4
        assert 'n2 reports an unsynchronized clock' in notes


def check_samples(report, folder):
    """Two devices a host, called alike: each host's samples name it, and lie within the job's time by its own clock."""
    assert sorted((t['host'], t['label']) for t in report['telemetry']) == \
        [('n1', '0 of n1'), ('n1', '1 of n1'), ('n2', '0 of n2'), ('n2', '1 of n2')]
    firsts = [json.loads(path.read_text().splitlines()[0]) for path in sorted(folder.glob('samples*.jsonl'))]
    assert sorted(first['host'] for first in firsts) == ['n1', 'n1', 'n2', 'n2']


def check_collectives(report, calls):
    for rank in report['ranks']:
        (row,) = rank['collectives']
        assert (row['name'], row['calls'], row['group_size']) == ('all_reduce', calls, 4)
        assert row['busbw_gbps'] is not None, 'the group was not matched whole'


@pytest.fixture(scope='module')
def on_node():
    """on_node[name]: words in front of a command that runs there; on_node['agent']: what starts commands on n2."""
    missing = [name for name in ('unshare', 'nsenter', 'ip', 'mpirun') if shutil.which(name) is None]
    if missing:
        pytest.skip(f'not installed: {", ".join(missing)}')
    new = ['unshare', '--uts', '--net', '--mount', '--time', '--fork', '--kill-child']
    if os.geteuid() != 0 or subprocess.run([*new, 'ip', 'link', 'set', 'lo', 'up'], capture_output=True).returncode:
        pytest.skip('nodes with names and networks of their own need root')
    holders = [subprocess.Popen([*new, '--monotonic', str(10_000 * (i + 1)), 'sh', '-c',
                                 f'hostname {name}; ip link set lo up; echo $$; exec sleep 600'],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) for i, name in enumerate(NODES)]
    try:
        pids = [int(holder.stdout.readline()) for holder in holders]
        words = {name: ['nsenter', '-t', str(pid), '--uts', '--net', '--mount', '--time'] for name, pid in zip(NODES, pids)}
        for node, script in (('n1', f'ip link add veth1 type veth peer name veth2 netns {pids[1]}'),
                             ('n1', 'ip address add 10.77.0.1/24 dev veth1; ip link set veth1 up'),
                             ('n2', 'ip address add 10.77.0.2/24 dev veth2; ip link set veth2 up')):
            subprocess.run([*words[node], 'sh', '-ec', script], check=True, timeout=20)
        yield words
    finally:
        for holder in holders:
            holder.kill()   # and with it what it holds: --kill-child
            holder.wait(20)


@pytest.fixture
def mpirun(on_node, tmp_path):
    """mpirun(count, *words) -> what so many processes, shared out over both nodes, made of it."""
    agent = tmp_path / 'agent'
    agent.write_text(f'#!/bin/sh\nshift\nexec {" ".join(on_node["n2"])} sh -c "$*"\n')
    agent.chmod(0o755)

    def run(count, *words):
        env = {**without_launcher(), **environment(), 'OMPI_MCA_plm_rsh_agent': str(agent), 'OMPI_MCA_btl': 'tcp,vader,self',
               'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
        r = subprocess.run([*on_node['n1'], *MPIRUN, '--host', f'n1:{count // 2},n2:{count - count // 2}', '-n', str(count),
                            '-x', 'LD_LIBRARY_PATH', '-x', 'PROFGPU_CUPTI', *map(str, words)], env=env, cwd=tmp_path,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stderr
        return r
    return run


def analysed(*words):
    r = subprocess.run([PROGRAM, 'analyze', '--json', *map(str, words)], env=environment(), capture_output=True, text=True,
                       timeout=60)
    assert r.returncode == 0, r.stderr
    return r.stdout


@pytest.mark.parametrize('ahead_ns, errors_us', [(3_217_000_000, (1500, 2500)), (-3600 * SECOND_NS, (1500, 0))])
def test_clocks_of_two_nodes(mpirun, tmp_path, ahead_ns, errors_us):
    folder = tmp_path / 'rec'
    need(NVML)
    front = node_clock(tmp_path, ahead_ns, errors_us, PROFGPU_NVML_LIBRARY=NVML,
                       PROFGPU_NVML_SCENARIO=os.path.join(SCENARIOS, 'two_h100.txt'))
    r = mpirun(4, front, PROGRAM, 'run', '--backend', 'nvml', '--interval', '0.01', '--trace', '-o', folder, '--',
               *COMMAND, '--meet', tmp_path / 'meeting')
    assert r.stderr.count('Recorded 1 process, ') == 4, r.stderr
    # Clocks that count from boot differ as well: nothing may depend on them.
    boots = [next(row['host_ns'] for row in p['clock_sync']) for p in processes(folder).values()]
    assert max(boots) - min(boots) > 9_000 * SECOND_NS
    alone = analysed(folder)
    report = json.loads(alone)
    check_clocks(report, ahead_ns)
    check_statements(report, errors_us)
    check_samples(report, folder)
    check_collectives(report, 30)
    assert not [issue for source in report['inputs'] for issue in source['issues']]
    # The same job, read by processes on both nodes.
    assert mpirun(4, PROGRAM, 'analyze', '--mpi', '--json', folder).stdout == alone


def test_a_late_rank_on_the_node_with_another_clock(mpirun, tmp_path):
    folder = tmp_path / 'rec'
    slow = tmp_path / 'slow'
    slow.write_text('#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" != 3 ] || set -- "$@" --step-kernels 2000\nexec "$@"\n')
    slow.chmod(0o755)
    mpirun(4, node_clock(tmp_path, 3_217_000_000), PROGRAM, 'run', '--backend', 'none', '--trace', '-o', folder, '--', slow,
           *COMMAND, '--meet', tmp_path / 'meeting')
    report = json.loads(analysed(folder))
    check_clocks(report, 3_217_000_000)
    assert report['cluster']['stragglers'][0]['rank'] == 3
    waits = [rank['collectives'][0]['wait_ns'] for rank in report['ranks']]
    assert waits[3] == min(waits) and waits[3] < min(waits[:3]) / 2
