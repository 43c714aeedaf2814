"""Credentials planted in every kind of input come out of no output."""
import gzip
import json
import os
import pickle
import sqlite3
import subprocess

import pytest

import flight_writer
import nsight_export
from conftest import ROOT, program

# What no output may hold, by where it is planted.
AWS, AWS_SECRET = 'AKIAIOSFODNN7PLANTED', 'wJalrXUtnFEMI/K7MDENG/bPlantedKey'
HF, GITHUB, BEARER = 'hf_PlantedTokenAbCdEfGh', 'ghp_PlantedTokenAbCdEfGhIjKlMnOp012345', 'bearerPlanted.abc-123'
PASSWORD, BASIC, URL, PRIVATE = 'hunter2,Planted;x', 'UGxhbnRlZDpQYXNz', 'urlPlanted99', 'envPlantedValue'
PLANTED = (AWS, AWS_SECRET, HF, GITHUB, BEARER, PASSWORD, 'Planted;x', BASIC, URL, PRIVATE)

COMMAND = ['python', 'train.py', '--hf-token', HF, f'--password={PASSWORD}', '--api-key', PRIVATE, '--lr', '0.1', f'WANDB_API_KEY={AWS_SECRET}']
LINES = [f'export AWS_ACCESS_KEY_ID={AWS}', f'AWS_SECRET_ACCESS_KEY={AWS_SECRET}', f"login(token='{HF}')", f'using {GITHUB}',
         f'Authorization: Bearer {BEARER}', f'"Authorization": "Basic {BASIC}"', f'MYSQL_PWD={PASSWORD}',
         f'password:\t{PASSWORD}', f'token => {HF}', f"PASSWORD=''{PRIVATE}''", f'client_secret%3D{PRIVATE}', f'"auth_token": ["{PRIVATE}"]',
         f'Authorization: Digest username="me", response="{PRIVATE}"', f'Cookie: a=b; session={PRIVATE}', f'passphrase={PRIVATE}',
         f'AccountKey={AWS_SECRET}==', f'https://hooks.slack.com/services/T0/B0/{PRIVATE}', f'postgres://me:p@{URL}@db/x',
         f'cloning https://me:{URL}@example.com/repo.git', f'X-Api-Key: {PRIVATE}', f'--password {PASSWORD} --lr 0.1']

OUTPUTS = [('analyze', 'IN'), ('analyze', '--json', 'IN'), ('analyze', '--format', 'markdown', 'IN'), ('analyze', '--format', 'sarif', 'IN'),
           ('analyze', '--format', 'github', 'IN'), ('analyze', '--html', 'OUT.html', 'IN'), ('analyze', '--section', 'findings', 'IN'),
           ('diff', '--json', 'IN', 'IN'), ('query', '--json', 'IN', 'select * from metadata'), ('query', '--json', 'IN', 'select * from issues'),
           ('query', '--json', 'IN', 'select * from snapshot_events'), ('query', '--json', 'IN', 'select * from sample_processes'),
           *(('export', 'IN', '--to', f, '-o', f'OUT.{f}') for f in ('chrome', 'perfetto', 'sqlite', 'csv', 'folded', 'speedscope')),
           ('merge', 'IN', '-o', 'OUT.json')]


def texts_of(path):
    """All bytes of a file or folder, and what is compressed in it; of a database its cells."""
    if os.path.isdir(path):
        for name in os.listdir(path):
            yield from texts_of(os.path.join(path, name))
        return
    with open(path, 'rb') as file:
        data = file.read()
    yield data
    if data[:2] == b'\x1f\x8b':
        yield gzip.decompress(data)
    if data.startswith(b'SQLite format 3'):
        base = sqlite3.connect(path)
        for table, in base.execute("select name from sqlite_master where type = 'table'").fetchall():
            yield repr(base.execute(f'select * from "{table}"').fetchall()).encode()
        base.close()


def mcp_answers(path):
    asked = [('open_run', {'paths': [path]}), ('verdict', {'run': path}), ('findings', {'run': path, 'max_chars': 100000}),
             ('section', {'run': path, 'name': 'inputs'}), ('section', {'run': path, 'name': 'logs'}), ('memory', {'run': path}),
             ('sql', {'run': path, 'sql': 'select * from metadata'})]
    lines = [json.dumps({'jsonrpc': '2.0', 'id': i, 'method': 'tools/call', 'params': {'name': n, 'arguments': a}}) for i, (n, a) in enumerate(asked)]
    result = subprocess.run([program('PROFGPU', 'profgpu'), 'mcp'], input='\n'.join(lines).encode(), capture_output=True, timeout=60)
    assert result.returncode == 0 and result.stdout.count(b'\n') == len(asked)
    return result.stdout


# A file that holds a credential and nothing else, in forms in which people keep them.
ALONE = [HF, AWS, f'password={PASSWORD}', f'export HF_TOKEN={PRIVATE}', f'{{"token": "{PRIVATE}"}}', f'password: {PRIVATE}', f'Authorization: Bearer {BEARER}',
         f'https://me:{URL}@example.com', f'x = "{GITHUB}"']


@pytest.mark.parametrize('text', ALONE)
def test_no_error_quotes_a_file_that_only_holds_a_credential(text, profgpu, tmp_path):
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'folder' / 'env').write_text(text + '\n')
    path, folder = tmp_path / 'folder' / 'env', tmp_path / 'folder'
    tried = [('analyze', path), ('analyze', folder), ('analyze', '--json', ROOT + '/examples/resnet-demo.json.gz', path), ('diff', path, path),
             ('query', path, 'select 1'), ('query', ROOT + '/examples/resnet-demo.json.gz', '--file', path), ('export', path, '--to', 'csv', '-o', tmp_path / 'x'),
             ('monitor', '--alerts', path), ('exporter', '--collectors', path), ('exporter', '--web.config.file', path), ('doctor', '--bench', path),
             ('bench', '--saved', path), ('analyze', ROOT + '/examples/resnet-demo.json.gz', '--peaks', path),
             ('stat', '--backend', f'replay:{path}'), ('attach', text)]
    tried += [('--' + text,), ('nsys', 'stats', text)] if ': ' not in text else []   # the name of a file stays
    found = []
    for words in tried:
        result = profgpu(*words)
        found += [(words[0], secret) for secret in PLANTED if secret.encode() in result.stdout + result.stderr]
    assert found == []
    assert [secret for secret in PLANTED if secret.encode() in mcp_answers(str(path)) + mcp_answers(str(folder))] == []


def leaks(profgpu, path, tmp_path):
    """(command, what leaked). At least the report itself is there."""
    found, reports = [], 0
    folder = tmp_path / 'outputs'
    folder.mkdir()
    for words in OUTPUTS:
        given = [str(path) if w == 'IN' else w.replace('OUT', str(folder / 'out')) for w in words]
        result = profgpu(*given)
        reports += result.returncode == 0
        for text in (result.stdout, result.stderr, *(t for name in sorted(os.listdir(folder)) for t in texts_of(folder / name))):
            found += [(' '.join(words), secret) for secret in PLANTED if secret.encode() in text]
        subprocess.run(['rm', '-rf', *(str(folder / n) for n in os.listdir(folder))], check=True)
    assert reports >= 5
    return found + [('mcp', secret) for secret in PLANTED if secret.encode() in mcp_answers(str(path))]


def plant_kineto(folder, simulate):
    with open(simulate('--steps', '6'), encoding='utf-8') as file:
        trace = json.load(file)
    trace |= {'environment': {'AWS_SECRET_ACCESS_KEY': AWS_SECRET, 'ANYTHING': PRIVATE}, 'env_text': json.dumps({'ANYTHING': PRIVATE}),
              'argv': COMMAND, 'command_line': ' '.join(COMMAND), 'hf_token': PRIVATE, 'note': ' | '.join(LINES), 'password': PASSWORD,
              'aws': AWS, 'learning_rate': 0.25}
    # What programs name: threads, ranges, inputs of operators, functions.
    op = next(e for e in trace['traceEvents'] if e.get('cat') == 'cpu_op')
    at = {key: op[key] for key in ('pid', 'tid', 'ts')} | {'ph': 'X', 'dur': 1}
    names = [' '.join(COMMAND), f"login token={HF}", f'https://me:{URL}@example.com/repo.git', f'/home/{GITHUB}/a.py(12): main', f'f_{HF}']
    trace['traceEvents'] += [{'ph': 'M', 'name': 'thread_name', 'pid': op['pid'], 'tid': op['tid'], 'args': {'name': names[0]}}]
    trace['traceEvents'] += [at | {'cat': cat, 'name': name} for name in names for cat in ('user_annotation', 'python_function', 'cpu_op')]
    trace['traceEvents'] += [at | {'cat': 'cpu_op', 'name': 'my::op', 'args': {'Concrete Inputs': [*names, '3'], 'Input Dims': [[]] * 6,
                                                                             'Input type': ['Scalar'] * 6}}]
    path = folder / 'trace.json'
    path.write_text(json.dumps(trace))
    return path


def plant_snapshot(folder, simulate):
    frames = [{'name': f'f_{HF}', 'filename': f'/home/u/token={GITHUB}/a.py', 'line': 3},
              {'name': 'main', 'filename': f'https://me:{URL}@example.com/b.py', 'line': 4}]
    block = {'address': 4096, 'size': 1 << 20, 'requested_size': 1 << 20, 'state': 'active_allocated', 'frames': frames}
    segment = {'device': 0, 'address': 4096, 'total_size': 1 << 21, 'allocated_size': 1 << 20, 'active_size': 1 << 20, 'requested_size': 1 << 20,
               'stream': 0, 'segment_type': 'large', 'blocks': [block, {'address': 4096 + (1 << 20), 'size': 1 << 20, 'state': 'inactive'}]}
    events = [{'action': 'segment_alloc', 'addr': 4096, 'size': 1 << 21, 'stream': 0, 'time_us': 1, 'frames': frames},
              {'action': 'alloc', 'addr': 4096, 'size': 1 << 20, 'stream': 0, 'time_us': 2, 'frames': frames}]
    path = folder / 'snapshot.pickle'
    path.write_bytes(pickle.dumps({'segments': [segment], 'device_traces': [events], 'user_metadata': LINES[2]}))
    return path


def plant_log(folder, simulate):
    path = folder / 'train.log'
    steps = [f' [2026-11-25 10:00:{i:02d}] iteration {i:8d}/ 1000 | consumed samples: {i * 256} | elapsed time per iteration (ms): 900.1 | '
             f'learning rate: 1.0E-4 | global batch size: 256 | lm loss: 2.5 |' for i in range(1, 30)]
    failure = ['Traceback (most recent call last):', '  File "train.py", line 12, in <module>', f"ValueError: bad request: {LINES[4]}, {LINES[7]}"]
    nccl = [f'node1:1:1 [0] NCCL INFO NCCL_SECRET_TOKEN set by environment to {HF}.', f'node1:1:1 [0] NCCL WARN cannot log in: {LINES[4]}']
    path.write_text('\n'.join([*LINES, *nccl, *steps, *(f'WARNING: {line}' for line in LINES), *failure]) + '\n')
    return path


def plant_nsight(folder, simulate):
    export = nsight_export.Export(str(folder / 'report.sqlite'))
    nsight_export.step_loop(export)
    path = export.done()
    base = sqlite3.connect(path)
    base.execute('create table if not exists TARGET_INFO_SYSTEM_ENV (globalVid integer, devStateName text, name text, nameEnum integer, value text)')
    columns = [row[1] for row in base.execute('pragma table_info(TARGET_INFO_SYSTEM_ENV)')]
    for name, value in (('AWS_SECRET_ACCESS_KEY', AWS_SECRET), ('Environment', f'ANYTHING={PRIVATE}'), ('HF_TOKEN', HF)):
        cells = {'name': name, 'value': value}
        base.execute(f'insert into TARGET_INFO_SYSTEM_ENV values ({",".join("?" * len(columns))})', [cells.get(c) for c in columns])
    base.execute('create table if not exists META_DATA_CAPTURE (name text, value text)')
    base.executemany('insert into META_DATA_CAPTURE (name, value) values (?, ?)',
                     [('PROCESS_0:COMMAND_LINE', ' '.join(COMMAND)), ('PROCESS_0:ENVIRONMENT', f'ANYTHING={PRIVATE}')])
    base.execute('create table if not exists DIAGNOSTIC_EVENT (timestamp integer, timestampType integer, source integer, severity integer, '
                 'text text, globalPid integer)')
    columns = [row[1] for row in base.execute('pragma table_info(DIAGNOSTIC_EVENT)')]
    for line in LINES:
        cells = {'severity': 3, 'text': 'cannot start: ' + line, 'timestamp': 0, 'globalPid': 0}
        base.execute(f'insert into DIAGNOSTIC_EVENT values ({",".join("?" * len(columns))})', [cells.get(c) for c in columns])
    base.commit()
    base.close()
    return path


def plant_flight(folder, simulate):
    job = flight_writer.Job({'0': ('default_pg', [0, 1])})
    job.done('0', 3)
    job.call(0, '0')
    job.write(folder / 'dumps', as_json=True)
    for name in os.listdir(folder / 'dumps'):
        path = folder / 'dumps' / name
        dump = json.loads(path.read_text())
        dump |= {'environment': {'HF_TOKEN': HF, 'ANYTHING': PRIVATE}, 'command': ' '.join(COMMAND)}
        path.write_text(json.dumps(dump))
    return folder / 'dumps'


def plant_samples(folder, simulate):
    path = folder / 'samples.jsonl'
    rows = []
    for i in range(40):
        row = {'time_ns': 1_800_000_000_000_000_000 + i * 100_000_000, 'device': 0, 'utilization_pct': 90, 'power_w': 300.5,
               'environment': {'ANYTHING': PRIVATE}, 'command': ' '.join(COMMAND)}
        if i == 0:
            row |= {'name': 'Test GPU', 'uuid': 'GPU-0', 'vendor': 'NVIDIA', 'memory_total_bytes': 80_000_000_000}
        if i % 10 == 0:
            row['processes'] = [{'pid': 4711, 'type': 'C', 'name': ' '.join(COMMAND), 'memory_bytes': 1000, 'command_line': ' '.join(COMMAND)}]
        rows.append(json.dumps(row))
    path.write_text('\n'.join(rows) + '\n')
    return path


INPUTS = {'kineto': plant_kineto, 'snapshot': plant_snapshot, 'log': plant_log, 'nsight': plant_nsight, 'flight': plant_flight, 'samples': plant_samples}


@pytest.mark.parametrize('kind', INPUTS)
def test_no_output_has_what_was_planted(kind, profgpu, simulate, tmp_path):
    path = INPUTS[kind](tmp_path, simulate)
    planted = b''.join(texts_of(path))
    assert sum(secret.encode() in planted for secret in PLANTED) >= 2   # the test plants something
    assert leaks(profgpu, path, tmp_path) == []


def test_what_is_harmless_is_still_there(profgpu, simulate, tmp_path):
    rows = json.loads(profgpu('query', '--json', plant_kineto(tmp_path, simulate), 'select * from metadata').stdout)
    values = {row['key']: row['value'] for row in rows}
    assert values['learning_rate'] == '0.25' and values['password'] == '***' and values['hf_token'] == '***'
    assert values['command_line'].startswith('python train.py --hf-token *** --password=*** --api-key *** --lr 0.1')
    assert 'environment' not in values and 'env_text' not in values and 'argv' not in values


def test_a_command_is_recorded_without_its_secrets(profgpu, tmp_path):
    command = [program('NVTX_SUBJECT', 'nvtx-c'), *COMMAND[2:], '--token', '-' + PRIVATE]
    environment = dict(os.environ, AWS_SECRET_ACCESS_KEY=AWS_SECRET, HF_TOKEN=HF, NCCL_AUTH_TOKEN=PRIVATE,
                       TORCH_HUB_URL=f'https://bob:{URL}@host/x')
    recorded = profgpu('run', '--trace', '-o', tmp_path / 'rec', '--', *command, env=environment)
    assert recorded.returncode == 0, recorded.stderr
    said = profgpu('run', '--json', '--backend', 'none', '--', *command, env=environment)
    session = json.loads((tmp_path / 'rec' / 'session.json').read_text())
    assert session['command'][1:5] == ['--hf-token', '***', '--password=***', '--api-key']
    assert session['environment']['TORCH_HUB_URL'] == 'https://bob:***@host/x'
    rows = json.loads(profgpu('query', '--json', tmp_path / 'rec', "select value from metadata where key = 'command'").stdout)
    assert rows[0]['value'] == f'{command[0]} --hf-token *** --password=*** --api-key *** --lr 0.1 WANDB_API_KEY=*** --token ***'
    for text in (recorded.stdout, recorded.stderr, said.stdout, said.stderr, *texts_of(tmp_path / 'rec')):
        assert [secret for secret in PLANTED if secret.encode() in text] == []
    assert leaks(profgpu, tmp_path / 'rec', tmp_path) == []


def test_doctor_shows_variables_without_their_secrets(profgpu):
    environment = dict(os.environ, CUDA_TOKEN=PRIVATE, NCCL_SECRET_KEY=PRIVATE, TORCH_API_KEY=PRIVATE, NCCL_DEBUG_FILE=f'/x/{GITHUB}',
                       CUDA_CACHE_PATH=f'https://u:{URL}@h/x', NCCL_DEBUG='WARN')
    for words in ((), ('--json',)):
        said = profgpu('doctor', *words, env=environment).stdout
        assert b'NCCL_DEBUG=WARN' in said and b'CUDA_TOKEN=***' in said and b'NCCL_DEBUG_FILE=/x/***' in said
        assert [secret for secret in PLANTED if secret.encode() in said] == []
