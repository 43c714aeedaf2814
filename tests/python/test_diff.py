"""profgpu diff, baseline, history: is the change real, what is it made of, does it fail a gate."""
import fcntl
import glob
import itertools
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import termios
import xml.etree.ElementTree as ElementTree

import pytest

from conftest import ROOT, program

TRACES = os.path.join(ROOT, '..', 'shared', 'traces')


@pytest.fixture(scope='session')
def simulated(simulate):
    """simulated(*options) -> path of a simulated trace; made once for the same options."""
    return lambda *options: simulate(*map(str, options))


def diff(profgpu, *words, rc=0):
    result = profgpu('diff', *map(str, words), '--json', text=True)
    assert result.returncode == rc, result.stderr
    return json.loads(result.stdout)


def adds_up(document):
    if not document['waterfall']:   # a run is in one part as a whole: it does not tell what its steps are made of
        assert any('does not tell its phases' in note for note in document['notes'])
        return
    before = sum(row['before_ns'] for row in document['waterfall'])
    after = sum(row['after_ns'] for row in document['waterfall'])
    delta = sum(row['delta_ns'] for row in document['waterfall'])
    assert (before, after) == (document['before_step_ns'], document['after_step_ns'])
    assert delta == after - before


def test_a_run_beside_itself_shows_no_difference(profgpu, simulated):
    run = simulated('--steps', 10)
    document = diff(profgpu, run, run, '--fail-on', 'step_time > +3%')
    assert document['verdict'] == 'no_difference'
    assert document['ratio'] == 1
    assert all(row['delta_ns'] == 0 for row in document['waterfall'])
    assert all(row['change'] == 'same' for row in document['kernels'] + document['ops'])
    assert {row['change'] for row in document['findings']} <= {'same'}
    adds_up(document)


def test_a_finding_that_stays_shows_both_figures(profgpu, simulated):
    a, b = simulated('--steps', 10, '--fault', 'data-loading-bound'), simulated('--steps', 10, '--fault', 'host-bound-launches')
    said = profgpu('diff', a, b, '--width', '200', text=True).stdout
    assert re.search(r'same +low-gpu-utilization .*GPU 0 is busy [0-9.]+ % of the time \([0-9.]+ % before\)', said), said


def test_a_terminal_gets_one_screen(simulated):
    a, b = simulated('--steps', 10), simulated('--steps', 10, '--fault', 'data-loading-bound')
    shown = on_terminal([program('PROFGPU', 'profgpu'), 'diff', a, b])
    assert len(shown.rstrip().split('\n')) <= 23, shown
    assert 'Slower' in shown and 'new ' in shown and '--all' in shown and 'Kernels, per step' not in shown
    assert 'Kernels, per step' in on_terminal([program('PROFGPU', 'profgpu'), 'diff', '--all', a, b])


def on_terminal(command, columns=100):
    """What a terminal of 24 lines gets."""
    ours, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=subprocess.DEVNULL, env=dict(os.environ, TERM='dumb', LC_ALL='C.UTF-8'))
    os.close(its)
    text = b''
    try:
        while data := os.read(ours, 65536):
            text += data
    except OSError:
        pass
    os.close(ours)
    assert process.wait() == 0
    return text.decode().replace('\r\n', '\n')


def test_the_same_is_said_each_time(profgpu, simulated):
    a, b = simulated('--steps', 10), simulated('--steps', 10, '--seed', 2)
    assert diff(profgpu, a, b) == diff(profgpu, a, b)


def test_a_fault_makes_it_slower_and_is_named(profgpu, simulated):
    healthy, slow = simulated('--steps', 10), simulated('--steps', 10, '--fault', 'data-loading-bound')
    document = diff(profgpu, healthy, slow, '--fail-on', 'step_time > +3%', '--fail-on', 'finding:data-loading-bound',
                    '--fail-on', 'phase:backward > +3%', rc=3)
    assert document['verdict'] == 'slower'
    assert document['ratio_low'] > 1
    assert [gate['verdict'] for gate in document['gates']] == ['fail', 'fail', 'pass']
    assert document['waterfall'][0]['part'] == 'data_loading'
    assert ('data-loading-bound', 'new') in {(f['rule'], f['change']) for f in document['findings']}
    adds_up(document)
    back = diff(profgpu, slow, healthy)
    assert back['verdict'] == 'faster'
    assert ('data-loading-bound', 'gone') in {(f['rule'], f['change']) for f in back['findings']}


def test_a_saved_analysis_says_what_its_trace_says(profgpu, simulated, tmp_path):
    a, b = simulated('--steps', 10), simulated('--steps', 10, '--fault', 'data-loading-bound')
    saved = tmp_path / 'a.json'
    assert profgpu('analyze', a, '--json', '-o', saved).returncode == 0
    from_trace, from_saved = diff(profgpu, a, b), diff(profgpu, saved, b)
    for document in from_trace, from_saved:
        del document['a']
        del document['runs']
    assert from_trace == from_saved


def test_several_ranks_and_different_numbers_of_them(profgpu, simulate):
    document = diff(profgpu, simulate('--ranks', '2'), simulate('--ranks', '4'))
    assert [run['ranks'] for run in document['runs']] == [2, 4]
    assert any('2 and 4 ranks' in note for note in document['notes'])
    adds_up(document)


def without(job, folder, keep):
    """A copy of a job whose last rank has only the events that `keep` wants."""
    shutil.copytree(job, folder)
    path = sorted(folder.glob('*rank*'))[-1]
    document = json.loads(path.read_bytes())
    document['traceEvents'] = [e for e in document['traceEvents'] if keep(e)]
    path.write_text(json.dumps(document))
    return folder


def test_ranks_with_unequal_numbers_of_steps_add_no_steps(profgpu, simulate, tmp_path):
    job = simulate('--ranks', '4', '--steps', '8', '--layers', '1')
    begins = sorted(e['ts'] for e in json.loads(sorted(job.glob('*rank*'))[-1].read_bytes())['traceEvents']
                    if str(e.get('name', '')).startswith('ProfilerStep#') and e.get('cat') != 'gpu_user_annotation')
    short = without(job, tmp_path / 'short', lambda e: e.get('ts', 0) < begins[-1])
    document = diff(profgpu, job, short)
    assert (document['steps_a'], document['steps_b']) == (8, 8) and document['verdict'] == 'no_difference'
    adds_up(document)


def test_a_rank_without_anything_of_its_device_is_left_out(profgpu, simulate, tmp_path):
    job = simulate('--ranks', '4', '--steps', '8', '--layers', '1')
    blind = without(job, tmp_path / 'blind', lambda e: e.get('cat') not in ('kernel', 'gpu_memcpy', 'gpu_memset', 'gpu_user_annotation'))
    document = diff(profgpu, job, blind, '--fail-on', 'device:compute > +5%', '--fail-on', 'device:compute > -5%')
    assert document['verdict'] == 'no_difference' and document['gates'][0]['verdict'] == 'pass'
    assert any(note.endswith('left out, without data of any device: rank 3') for note in document['notes'])
    adds_up(document)


def test_recordings_of_a_program_without_a_gpu_are_compared_by_its_functions(profgpu, tmp_path):
    pytest.importorskip('torch')
    program = tmp_path / 'train.py'
    program.write_text("""import sys, time, torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)

def log_step():
    time.sleep(float(sys.argv[1]))

def train():
    for _ in range(30):
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        log_step()

train()
""")
    for name, seconds in (('slow', '0.03'), ('fast', '0.005')):
        profgpu('run', '--trace', '-o', tmp_path / name, '--', sys.executable, program, seconds)
    document = diff(profgpu, tmp_path / 'slow', tmp_path / 'fast')
    first = document['functions'][0]
    assert first['name'].startswith('log_step (') and first['delta_ns'] < -0.7 * 0.025e9
    text = profgpu('diff', tmp_path / 'slow', tmp_path / 'fast', '--all', text=True).stdout
    assert 'Functions of the program' in text and 'log_step (' in text


def test_a_run_without_its_device_mends_nothing(profgpu, simulate, tmp_path):
    seen = simulate('--steps', '10', '--fault', 'excessive-synchronization')
    document = json.loads(seen.read_bytes())
    on_device = ('kernel', 'gpu_memcpy', 'gpu_memset', 'gpu_user_annotation')
    document['traceEvents'] = [e for e in document['traceEvents'] if e.get('cat') not in on_device]
    blind = tmp_path / 'blind.json'
    blind.write_text(json.dumps(document))
    told = diff(profgpu, seen, blind, '--fail-on', 'finding:excessive-synchronization', '--allow-inconclusive')
    assert told['verdict'] is None and told['kernels'] == []
    changes = {row['rule']: row['change'] for row in told['findings']}
    assert changes['excessive-synchronization'] == 'not_seen'
    assert told['gates'][0]['verdict'] == 'unknown'
    text = ' '.join(profgpu('diff', seen, blind, text=True).stdout.split())
    assert f'Comparable only if {blind} used no GPU' in text and 'no GPU activity in the file' in text
    assert 'not seen excessive-synchronization' in text and 'gone excessive-synchronization' not in text


def products(path, kernel, each):
    """A trace of steps with products of two sizes, by one kernel."""
    events = []
    for step in range(3):
        at = 1000 * step
        events.append({'ph': 'X', 'cat': 'user_annotation', 'name': f'ProfilerStep#{step}', 'pid': 1, 'tid': 1, 'ts': at, 'dur': 990})
        for i, size in enumerate((64, 128)):
            number = 10 * step + i + 1
            begin = at + 100 * i
            events.append({'ph': 'X', 'cat': 'cpu_op', 'name': 'aten::mm', 'pid': 1, 'tid': 1, 'ts': begin, 'dur': 20,
                           'args': {'External id': number, 'Input Dims': [[size, size], [size, size]], 'Input type': ['float', 'float']}})
            events.append({'ph': 'X', 'cat': 'cuda_runtime', 'name': 'cudaLaunchKernel', 'pid': 1, 'tid': 1, 'ts': begin + 5, 'dur': 5,
                           'args': {'correlation': number}})
            events.append({'ph': 'X', 'cat': 'kernel', 'name': kernel, 'pid': 0, 'tid': 7, 'ts': at + 300 + 300 * i, 'dur': each,
                           'args': {'device': 0, 'stream': 7, 'correlation': number}})
    path.write_text(json.dumps({'schemaVersion': 1, 'traceEvents': events}))
    return path


def test_other_kernels_of_an_operator_are_told_by_its_sizes(profgpu, tmp_path):
    runs = products(tmp_path / 'a.json', 'volta_sgemm', 100), products(tmp_path / 'b.json', 'ampere_sgemm', 200)
    assert len(diff(profgpu, *runs)['kernels']) == 2
    text = profgpu('diff', *runs, text=True).stdout
    rows = [line for line in text.splitlines() if 'aten::mm' in line]
    assert [row.split(':')[2].strip() for row in rows] == ['mm [[128, 128], [128, 128]]', 'mm [[64, 64], [64, 64]]'], text
    assert all('100 µs' in row and '200 µs' in row for row in rows), text


def test_more_than_two(profgpu, simulated):
    runs = [simulated('--steps', 10), simulated('--steps', 10, '--fault', 'data-loading-bound'), simulated('--steps', 10, '--seed', 2)]
    document = diff(profgpu, *runs)
    assert len(document['runs']) == 3
    text = profgpu('diff', *runs, text=True).stdout
    assert 'the best of its row' in text and ' *' in text


@pytest.mark.parametrize('name,heads', [('{}.json', ['0.json', '1.json', '2.json']),
                                        ('training-with-{}-workers-and-pinned-memory.json', ['run 1', 'run 2', 'run 3'])])
def test_a_sweep_keeps_its_runs_side_by_side(profgpu, simulated, tmp_path, name, heads):
    folder = tmp_path / 'a folder that all of the runs have in common'
    folder.mkdir()
    runs = [folder / name.format(i) for i in range(3)]
    for run in runs:
        run.symlink_to(simulated())
    lines = profgpu('diff', '--width', '80', '--all', *runs).stdout.decode().splitlines()
    table = lines.index('All runs (* the best of its row)')
    assert re.split(r'  +', lines[table + 1].strip()) == heads
    assert len(re.split(r'  +', lines[table + 2].strip())) == 4 and max(map(len, lines[table:table + 6])) <= 80


def test_markdown_and_junit(profgpu, simulated):
    a, b = simulated('--steps', 10), simulated('--steps', 10, '--fault', 'data-loading-bound')
    markdown = profgpu('diff', a, b, '--format', 'markdown', text=True).stdout
    assert markdown.startswith('### Slower: a step takes')
    gates = ('--format', 'junit', '--fail-on', 'step_time > +3%', '--fail-on', 'power > 3W')
    for words, failures, skipped in (((), '2', '0'), (('--allow-inconclusive',), '1', '1')):
        junit = profgpu('diff', a, b, *gates, *words, text=True)
        assert junit.returncode == 3
        suite = ElementTree.fromstring(junit.stdout)
        assert (suite.get('tests'), suite.get('failures'), suite.get('skipped')) == ('2', failures, skipped)
    assert profgpu('diff', a, b, '--format', 'junit').returncode == 2


def test_sample_logs(profgpu, tmp_path):
    log = os.path.join(ROOT, 'examples', 'replay.jsonl')
    document = diff(profgpu, log, log)
    assert document['verdict'] is None
    assert document['telemetry']


@pytest.mark.parametrize('content, says', [
    ('{"schema": "profgpu.analysis.v2", "ranks": []}', 'another version of profgpu wrote it'),
    ('{"schema": "profgpu.analysis.v1", "ranks": [{"rank": 0}]}', 'without the data that a comparison needs'),
    ('{"schema": "profgpu.analysis.v1", "ranks": []}', 'neither steps nor samples'),
    ('{"schema": "profgpu.analysis.v1", "ranks": [', 'ends early'),
    ('{"schema": "profgpu.analysis.v1", "ranks": 7}', 'neither steps nor samples'),
    ('{"schema": "profgpu.run.v1"}', 'profgpu.run.v1'),
    ('', ''),
])
def test_documents_that_cannot_be_compared(profgpu, simulated, tmp_path, content, says):
    path = tmp_path / 'saved.json'
    path.write_text(content)
    result = profgpu('diff', path, simulated('--steps', 10), text=True)
    assert result.returncode == 1
    assert says in result.stderr and 'saved.json' in result.stderr


def test_nothing_in_common(profgpu, simulated):
    result = profgpu('diff', simulated('--steps', 10), os.path.join(ROOT, 'examples', 'replay.jsonl'), text=True)
    assert result.returncode == 1
    assert 'nothing in common' in result.stderr


def test_one_step_only(profgpu, simulated):
    run = simulated('--steps', 1)
    document = diff(profgpu, run, run, '--fail-on', 'step_time > +3%')
    assert document['verdict'] == 'no_difference'
    assert document['ratio_low'] is None


@pytest.mark.parametrize('gate', ['step_time', 'nothing > 3%', 'step_time > +3 bananas', 'kernel > 3%'])
def test_gates_that_make_no_sense(profgpu, simulated, gate):
    run = simulated('--steps', 10)
    assert profgpu('diff', run, run, '--fail-on', gate).returncode == 2


def test_baseline_and_history(profgpu, simulated, tmp_path):
    a, b = simulated('--steps', 10), simulated('--steps', 10, '--fault', 'data-loading-bound')
    file = tmp_path / 'history.sqlite'
    for run in a, b, a:
        assert profgpu('baseline', 'save', 'main', run, '--file', file).returncode == 0
    assert diff(profgpu, '--baseline', 'main', '--file', file, b)['verdict'] == 'slower'
    runs = json.loads(profgpu('history', 'main', '--file', file, '--json', text=True).stdout)['runs']
    assert [run['steps'] for run in runs] == [runs[0]['steps']] * 3
    assert runs[1]['step_mean_ns'] > runs[0]['step_mean_ns'] == runs[2]['step_mean_ns']
    screen = profgpu('history', '--file', file, text=True).stdout
    assert 'main' in screen and '█' in screen
    missing = profgpu('diff', '--baseline', 'mian', '--file', file, b, text=True)
    assert missing.returncode == 1 and 'did you mean main' in missing.stderr


def test_chosen_steps_only(profgpu, simulated, tmp_path):
    run, saved = simulated('--steps', 10), tmp_path / 'saved.json'
    document = diff(profgpu, run, run, '--steps', '4:9')
    assert 1 < document['steps_a'] == document['steps_b'] < diff(profgpu, run, run)['steps_a']
    assert profgpu('analyze', run, '--json', '-o', saved).returncode == 0
    refused = profgpu('diff', saved, run, '--steps', '2:6', text=True)
    assert refused.returncode == 1 and 'saved.json: --steps cannot choose' in refused.stderr


def test_many_jobs_save_at_once(profgpu, simulated, tmp_path):
    saved = tmp_path / 'a.json'
    assert profgpu('analyze', simulated('--steps', 10), '--json', '-o', saved).returncode == 0
    file = tmp_path / 'history.sqlite'
    jobs = [subprocess.Popen([program('PROFGPU', 'profgpu'), 'baseline', 'save', 'main', saved, '--file', file], stdout=subprocess.DEVNULL)
            for _ in range(12)]
    assert [job.wait() for job in jobs] == [0] * 12
    assert len(json.loads(profgpu('history', '--file', file, '--json', text=True).stdout)['runs']) == 12


def test_a_name_is_shown_harmlessly_and_can_be_copied(profgpu, simulated, tmp_path):
    file = tmp_path / 'history.sqlite'
    result = profgpu('baseline', 'save', "it's \x1b[31m", simulated('--steps', 10), '--file', file, text=True)
    assert result.returncode == 0 and '\x1b' not in result.stdout
    assert "as it's \\x1b[31m" in result.stdout and "--baseline 'it'\\''s \\x1b[31m'" in result.stdout


def test_a_damaged_history(profgpu, simulated, tmp_path):
    file = tmp_path / 'history.sqlite'
    file.write_bytes(b'no database at all ' * 100)
    result = profgpu('baseline', 'save', 'main', simulated('--steps', 10), '--file', file, text=True)
    assert result.returncode == 1 and 'history.sqlite' in result.stderr


@pytest.mark.skipif(not os.path.isdir(TRACES), reason='no recorded traces beside the checkout')
def test_every_pair_of_recorded_traces_adds_up(profgpu, tmp_path):
    saved = []
    for path in sorted(glob.glob(os.path.join(TRACES, '*.json.gz'))):
        target = tmp_path / (os.path.basename(path) + '.analysis.json')
        assert profgpu('analyze', path, '--json', '--quiet', '-o', target).returncode == 0
        saved.append(target)
    for a, b in itertools.combinations(saved, 2):
        adds_up(diff(profgpu, a, b))


@pytest.mark.skipif(not os.path.isdir(TRACES), reason='no recorded traces beside the checkout')
def test_recorded_pairs_are_explained(profgpu):
    document = diff(profgpu, os.path.join(TRACES, 'v100-resnet50-workers0.json.gz'),
                    os.path.join(TRACES, 'v100-resnet50-workers4.json.gz'))
    assert document['verdict'] == 'faster'
    assert document['waterfall'][0]['part'] == 'data_loading'
    vendors = diff(profgpu, os.path.join(TRACES, 'h100-qwen.json.gz'), os.path.join(TRACES, 'mi300-qwen.json.gz'))
    assert any(row['name'] == 'gemm' for row in vendors['categories'])


def engine_trace(path, device_us, between_us=3000):
    """Decode steps whose range ends after 400 us, while the graph that they launch runs on."""
    events, at = [], 0
    for i in range(20):
        events += [
            {'ph': 'X', 'cat': 'user_annotation', 'name': 'execute_context_0(0)_generation_4(4)', 'pid': 1, 'tid': 1, 'ts': at, 'dur': 400},
            {'ph': 'X', 'cat': 'cuda_runtime', 'name': 'cudaGraphLaunch', 'pid': 1, 'tid': 1, 'ts': at + 10, 'dur': 20, 'args': {'correlation': i + 1}},
            {'ph': 'X', 'cat': 'kernel', 'name': 'gemm', 'pid': 0, 'tid': 7, 'ts': at + 40, 'dur': device_us,
             'args': {'device': 0, 'stream': 7, 'correlation': i + 1}}]
        at += 40 + device_us + between_us
    path.write_text(json.dumps({'traceEvents': events}))
    return path


def test_an_engines_steps_are_compared_with_their_device_work(profgpu, tmp_path):
    fast, slow = engine_trace(tmp_path / 'fast.json', 10_000), engine_trace(tmp_path / 'slow.json', 14_000)
    document = json.loads(profgpu('diff', fast, slow, '--json').stdout)
    assert document['verdict'] == 'slower' and document['ratio'] == pytest.approx(17_040 / 13_040, rel=0.02)
    idle = engine_trace(tmp_path / 'idle.json', 10_000, between_us=8000)   # the scheduler takes longer
    document = json.loads(profgpu('diff', fast, idle, '--json').stdout)
    assert document['verdict'] == 'slower' and document['ratio'] == pytest.approx(18_040 / 13_040, rel=0.03)
    asked = engine_trace(tmp_path / 'asked.json', 10_000, between_us=200_000)   # nobody asks: no part of a step
    assert json.loads(profgpu('diff', fast, asked, '--json').stdout)['ratio'] < 1
