"""profgpu under Slurm: its real daemons, two nodes of one machine that differ in their host names."""
import json
import os
import shutil
import socket
import subprocess
import time

import pytest
from test_record import PROGRAM, SIM, document, environment, files, processes
from test_two_nodes import COMMAND as MEETING, check_clocks, check_collectives, check_statements, node_clock

DAEMONS = ('munged', 'slurmctld', 'slurmd', 'srun', 'sbatch', 'sinfo')
NODES = ('n1', 'n2')
CONFIGURATION = '''ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
SlurmctldPort={ports[0]}
SwitchType=switch/none
SchedulerType=sched/builtin
SelectType=select/linear
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/slurmd.%n.log
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 State=UNKNOWN
PartitionName=p Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
'''


def test_the_first_node_is_the_master(tmp_path):
    """A job without MASTER_ADDR: torchrun gets the first node of Slurm's list, in its short form."""
    torchrun = tmp_path / 'torchrun'
    torchrun.write_text('#!/bin/sh\necho "$@"\n')
    torchrun.chmod(0o755)
    for nodes, first in (('n[07-12,20],login', 'n07'), ('gpu-3', 'gpu-3'), ('a1,a2', 'a1'), ('r[1,3]n[2-4]', 'r1n2')):
        env = environment(SLURM_JOB_NUM_NODES='2', SLURM_NODEID='1', SLURM_STEP_NODELIST=nodes,
                          PATH=f'{tmp_path}:{os.environ["PATH"]}')
        r = subprocess.run([PROGRAM, 'run', '--backend', 'none', '-q', '--mode', 'multi-node', '--gpus', '1', 'train.py'],
                           env=env, capture_output=True, text=True, timeout=60)
        assert r.returncode == 0, r.stderr
        assert f'--master-addr {first} --master-port 29500 train.py' in r.stdout
    env.pop('SLURM_STEP_NODELIST')
    r = subprocess.run([PROGRAM, 'run', '--backend', 'none', '--mode', 'multi-node', '--gpus', '1', 'train.py'], env=env,
                       capture_output=True, text=True, timeout=60)
    assert r.returncode == 2 and '--master-addr' in r.stderr


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(('127.0.0.1', 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def log_of(folder):
    return ''.join(path.read_text() for path in sorted(folder.glob('*.log')))[-2000:]


@pytest.fixture(scope='module')
def cluster(tmp_path_factory):
    """The variables with which commands of Slurm reach two nodes."""
    missing = [name for name in DAEMONS if shutil.which(name) is None]
    if missing:
        pytest.skip(f'not installed: {", ".join(missing)}')
    if os.geteuid() != 0 or subprocess.run(['unshare', '-um', 'true'], capture_output=True).returncode:
        pytest.skip('nodes with host names of their own need root')
    folder = tmp_path_factory.mktemp('slurm')
    for name in ('state', 'tmp', *(f'{kind}.{n}' for kind in ('spool', 'tmp') for n in NODES)):
        (folder / name).mkdir()
    (folder / 'slurm.conf').write_text(CONFIGURATION.format(host=socket.gethostname().split('.')[0], folder=folder,
                                                            ports=free_ports(3)))
    (folder / 'munge.key').write_bytes(os.urandom(1024))
    (folder / 'munge.key').chmod(0o400)
    variables = environment(SLURM_CONF=str(folder / 'slurm.conf'))
    (folder / 'mpi.conf').write_text(f'PMIxCliTmpDirBase={folder}/tmp\n')   # each node has its own there
    on_node = 'hostname {0}; mount --bind {1}/tmp.{0} {1}/tmp; exec slurmd -D -N {0}'
    daemons = [subprocess.Popen(words, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
               for log in [open(folder / 'daemons.log', 'w')]
               for words in (['munged', '--force', '--foreground', f'--key-file={folder}/munge.key',
                              f'--socket={folder}/munge.socket', f'--pid-file={folder}/munge.pid',
                              f'--log-file={folder}/munge.log', f'--seed-file={folder}/seed'],
                             ['slurmctld', '-D', '-i'],
                             *(['unshare', '-um', 'sh', '-c', on_node.format(n, folder)] for n in NODES))]
    try:
        until = time.time() + 120
        while subprocess.run(['sinfo', '-h', '-o', '%D %T'], env=variables, capture_output=True,
                             text=True).stdout.split() != ['2', 'idle']:
            if time.time() > until:
                pytest.skip(f'Slurm does not start here: {log_of(folder)}')
            time.sleep(0.3)
        yield variables
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()


def in_cluster(variables, *words, cwd=None):
    r = subprocess.run(list(map(str, words)), env=variables, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=120)
    assert r.returncode == 0, r.stderr + r.stdout
    return r


def ranks_of(folder):
    return sorted((int(p.properties['rank']), p.properties['host']) for p in processes(folder).values())


COMMAND = (SIM, '--kernels', 0, '--steps', 4, '--step-kernels', 20)
FOUR = [(0, 'n1'), (1, 'n1'), (2, 'n2'), (3, 'n2')]


def test_srun_starts_the_program_on_each_node(cluster, tmp_path):
    folder = tmp_path / 'rec'
    r = in_cluster(cluster, 'srun', '-N', 2, '-n', 4, '--overcommit', PROGRAM, 'run', '--backend', 'none', '--trace', '-o',
                   folder, '--', *COMMAND)
    assert ranks_of(folder) == FOUR
    assert r.stderr.count('Recorded 1 process, ') == 4, r.stderr
    analysed = in_cluster(cluster, PROGRAM, 'analyze', '--json', folder)
    report = json.loads(analysed.stdout)
    assert [(rank['rank'], rank['world_size'], rank['host']) for rank in report['ranks']] == \
        [(0, 4, 'n1'), (1, 4, 'n1'), (2, 4, 'n2'), (3, 4, 'n2')]
    assert 'left out' not in analysed.stderr


def test_the_program_starts_srun(cluster, tmp_path):
    folder = tmp_path / 'rec'
    in_cluster(cluster, PROGRAM, 'run', '--backend', 'none', '--trace', '-o', folder, '--', 'srun', '-N', 2, '-n', 4,
               '--overcommit', *COMMAND)
    assert ranks_of(folder) == FOUR
    recorded = document(folder)['recording']
    assert recorded['kernels'] == 4 * 80 and len(recorded['processes']) == 4 and recorded['problems'] == []


def test_a_batch_script_that_starts_srun(cluster, tmp_path):
    folder = tmp_path / 'rec'
    script = tmp_path / 'job.sh'
    script.write_text(f'#!/bin/sh\nexec {PROGRAM} run --backend none --trace -o {folder} -- srun {" ".join(map(str, COMMAND))}\n')
    in_cluster(cluster, 'sbatch', '-W', '-N', 2, '-n', 4, '--overcommit', '--export=ALL', '-o', tmp_path / 'out', script)
    assert ranks_of(folder) == FOUR
    assert len(document(folder)['recording']['processes']) == 4


def test_folders_of_two_jobs_put_together(cluster, tmp_path):
    for node in NODES:
        in_cluster(cluster, 'srun', '-w', node, '-n', 1, PROGRAM, 'run', '--backend', 'none', '--trace', '-o', tmp_path / node,
                   '--', 'env', f'RANK={NODES.index(node)}', 'WORLD_SIZE=2', *COMMAND)
    both = tmp_path / 'both'
    both.mkdir()
    for node in NODES:
        for name in files(tmp_path / node):
            shutil.copy(tmp_path / node / name, both)
    report = json.loads(in_cluster(cluster, PROGRAM, 'analyze', '--json', both).stdout)
    assert [(rank['rank'], rank['host']) for rank in report['ranks']] == [(0, 'n1'), (1, 'n2')]


def test_nodes_with_clocks_of_their_own(cluster, tmp_path):
    folder = tmp_path / 'rec'
    ahead_ns = -7_250_000_000
    errors_us = (1500, 2500)
    in_cluster(cluster, 'srun', '-N', 2, '-n', 4, '--overcommit', node_clock(tmp_path, ahead_ns, errors_us), PROGRAM, 'run',
               '--backend', 'none', '--trace', '-o', folder, '--', *MEETING, '--meet', tmp_path / 'meeting')
    report = json.loads(in_cluster(cluster, PROGRAM, 'analyze', '--json', folder).stdout)
    check_clocks(report, ahead_ns)
    check_statements(report, errors_us)
    check_collectives(report, 30)


def test_srun_reads_a_job_on_both_nodes(cluster, simulate):
    r = subprocess.run(['srun', '--mpi=list'], env=cluster, capture_output=True, text=True, timeout=60)
    if 'pmix' not in (r.stdout + r.stderr).split():
        pytest.skip('not installed: the plugin of Slurm through which Open MPI starts (pmix)')
    folder = simulate('--steps', '3', '--layers', '2', '--ranks', '4')
    alone = in_cluster(cluster, PROGRAM, 'analyze', '--json', folder)
    both = in_cluster(cluster, 'srun', '--mpi=pmix', '-N', 2, '-n', 4, '--overcommit', PROGRAM, 'analyze', '--mpi', '--json',
                      folder)
    assert both.stdout == alone.stdout
