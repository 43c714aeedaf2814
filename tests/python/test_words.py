"""What people type: words to explain, other tools' options, commands that do not exist."""
import os
import shutil
import subprocess

import pytest

from conftest import ROOT, program


@pytest.mark.parametrize('word, meaning', [
    ('MFU', 'model FLOPs utilization'), ('mfu', 'model FLOPs utilization'), ('p95', '95 % stay below'), ('ddp', 'whole model'),
    ('host_bound', 'has not launched'), ('untraced work', 'recording lacks'), ('SM', 'streaming multiprocessor'),
    ('data_loading', 'next batch'), ('FLOPs', 'floating-point'), ('inconclusive', 'too little was recorded'), ('H2D', 'from host to device')])
def test_words_of_reports_are_explained(profgpu, word, meaning):
    said = profgpu('explain', word, text=True)
    assert said.returncode == 0 and meaning in said.stdout.replace('\n', ' '), said.stdout


@pytest.mark.parametrize('words, hint', [
    (['--verison'], 'did you mean --version?'), (['compare', 'a', 'b'], 'profgpu diff a b'), (['memory', 'x.pickle'], 'profgpu analyze x.pickle'),
    (['flamegraph', 'rec'], 'profgpu export rec --to folded'), (['timeline', 'rec'], 'profgpu analyze rec --html report.html'),
    (['list'], 'profgpu devices'), (['report', 'rec0'], 'profgpu analyze rec0'), (['view', 'rec0'], 'profgpu analyze rec0'),
    (['nowhere.py'], 'no such file here'), (['py-spy', 'dump', '--pid', '1'], 'use py-spy dump --pid 1'), (['nvidia-smi', '-pl', '300'], 'use nvidia-smi -pl 300'),
    (['run'], 'for example: profgpu -- python'), (['analyze', 'x', '--html'], '--html needs a file name: --html FILE')])
def test_what_was_meant_is_named(profgpu, words, hint):
    said = profgpu(*words, text=True)
    assert said.returncode == 2 and hint in ' '.join(said.stderr.split()), said.stderr


@pytest.mark.parametrize('word', ['products', 'certain', 'inferred', 'unattributed', 'reserved but unused', 'missing', 'behind', 'prefill', 'decode',
                                  'hidden', 'embedding parallel', 'flight recorder', 'temporary tensors', 'TP', 'PP', 'EP'])
def test_words_on_screens_are_explained(profgpu, word):
    assert profgpu('explain', *word.split()).returncode == 0


def test_steps_that_there_are(profgpu):
    said = profgpu('analyze', os.path.join(ROOT, 'examples', 'resnet-demo.json.gz'), '--steps', '100:200', text=True)
    assert said.returncode == 1 and '--steps 100:200 selects no step' in said.stderr and 'the trace has steps ' in said.stderr, said.stderr


def test_a_query_only_reads(profgpu):
    said = profgpu('query', os.path.join(ROOT, 'examples', 'resnet-demo.json.gz'), 'delete from kernels', text=True)
    assert said.returncode != 0 and 'queries only read' in said.stderr, said.stderr


def test_tables_go_into_a_folder(profgpu, tmp_path):
    said = profgpu('export', os.path.join(ROOT, 'examples', 'resnet-demo.json.gz'), '--to', 'csv', '-o', tmp_path / 'out.csv', text=True)
    count = len(os.listdir(tmp_path / 'out.csv'))
    assert f'wrote {count} tables into the folder {tmp_path}/out.csv/' in said.stderr and '-o names a folder' in said.stderr, said.stderr


def test_a_terminal_that_cannot_show_colors_gets_none():
    for term in ('', None, 'dumb', 'xterm'):
        environment = {k: v for k, v in os.environ.items() if k not in ('TERM', 'NO_COLOR')}
        if term is not None:
            environment['TERM'] = term
        ours, its = os.openpty()
        process = subprocess.Popen([program('PROFGPU', 'profgpu'), 'demo'], stdin=its, stdout=its, stderr=subprocess.DEVNULL, env=environment)
        os.close(its)
        text = b''
        try:
            while data := os.read(ours, 65536):
                text += data
        except OSError:
            pass
        os.close(ours)
        assert process.wait() == 0 and (b'\x1b' in text) == (term == 'xterm'), (term, text[:80])


def test_every_phase_cause_and_verdict_is_explained(profgpu, analyze):
    document = analyze(os.path.join(ROOT, 'examples', 'resnet-demo.json.gz'))
    phases = ('data_loading', 'forward', 'backward', 'optimizer', 'communication', 'checkpoint')
    causes = {row['cause'] for row in document['ranks'][0]['idle']}
    assert causes >= {'data_loading', 'synchronization'}
    for word in {*phases, *causes - {'unknown'}, 'bottleneck', 'healthy', 'hang', 'failure', 'capture', 'inconclusive', 'not estimated', 'Python GC'}:
        assert profgpu('explain', word).returncode == 0, word


def test_explain_takes_words_unquoted_and_lists_them(profgpu):
    assert 'replayed with one call' in profgpu('explain', 'CUDA', 'graph', text=True).stdout
    assert 'How it is computed' in profgpu('explain', 'data', 'loading', 'bound', text=True).stdout
    listed = profgpu('explain', text=True).stdout
    assert 'roofline' in listed and 'deepspeed' in listed and 'MFU' in listed and 'Next: profgpu explain WORD' in listed
    said = profgpu('explain', 'roofine', text=True)
    assert said.returncode == 2 and 'roofline' in said.stderr


@pytest.mark.parametrize('word, hint', [('dmon', 'profgpu help log'), ('nvidia-smi', 'profgpu help stat'), ('gpustat', 'profgpu help stat'),
                                        ('nsys', 'profgpu help run'), ('dcgmi', 'profgpu help log'), ('MFU', 'profgpu explain MFU')])
def test_help_points_on(profgpu, word, hint):
    said = profgpu('help', word, text=True)
    assert said.returncode == 2 and hint in said.stderr, said.stderr


def test_next_commands_can_be_typed(profgpu, tmp_path):
    with open(os.path.join(ROOT, 'examples', 'resnet-demo.json.gz'), 'rb') as trace:
        said = profgpu('analyze', '-', stdin=trace)
    assert said.returncode == 0 and b'Next: ' in said.stdout and b'profgpu analyze -' not in said.stdout
    said = profgpu('doctor', '--backend', 'none', text=True)
    assert 'Next: profgpu demo' in said.stdout and 'profgpu stat' not in said.stdout.split('Next: ')[1]


def test_the_next_command_names_both_files(profgpu, tmp_path):
    trace = os.path.join(ROOT, 'examples', 'resnet-demo.json.gz')
    for name in ('a b.json.gz', 'c.json.gz'):
        shutil.copy(trace, tmp_path / name)
    few = profgpu('analyze', 'a b.json.gz', 'c.json.gz', text=True, cwd=tmp_path).stdout.split('Next: ')[1]
    assert "profgpu analyze 'a b.json.gz' c.json.gz --section" in few and '…' not in few
    many = [f'{n}.json.gz' for n in range(5)]
    os.mkdir(tmp_path / 'many')
    for name in many:
        shutil.copy(trace, tmp_path / 'many' / name)
    said = profgpu('analyze', *[f'many/{name}' for name in many], text=True, cwd=tmp_path)
    assert 'profgpu analyze many --section' in said.stdout, said.stdout + said.stderr


@pytest.mark.parametrize('word', ['SDPA', 'MoE', 'HBM', 'skinny', 'recomputation', 'latency', 'latency bound', 'tile', 'replayed', 'critical',
                                  'warning', 'info'])
def test_words_of_screens_are_explained(profgpu, word):
    assert profgpu('explain', *word.split()).returncode == 0


@pytest.mark.parametrize('typed, hint', [
    ('watch -n 1 nvidia-smi', 'profgpu stat --watch 1, or profgpu top'), ('watch nvidia-smi', 'profgpu stat --watch 2, or profgpu top'),
    ('watch -n0.5 gpustat -cp', 'profgpu stat -cp --watch 0.5, or'), ('watch -n 1 nvidia-smi topo -m', 'watch -n 1 profgpu devices'),
    ('timeout -t 3600 nvidia-smi -l 1', 'timeout -t 3600 profgpu stat --watch 1'), ('sudo nvidia-smi', 'sudo profgpu stat'),
    ('docker run --gpus all nvcr.io/nvidia/k8s/dcgm-exporter:1', 'profgpu exporter replaces dcgm-exporter'),
    ('docker run image train', 'profgpu run -- PROGRAM'), ('snapshot x.pickle', 'profgpu analyze x.pickle --section snapshot'),
    ('html t.json', 'profgpu analyze t.json --html report.html'), ('ui t.json', 'profgpu analyze t.json --html report.html')])
def test_what_people_type_has_a_hint(profgpu, typed, hint):
    said = profgpu(*typed.split(), text=True)
    assert said.returncode == 2 and hint in said.stderr, said.stderr


def test_advice_on_shapes_can_be_followed_after_the_job(profgpu):
    said = profgpu('analyze', os.path.join(ROOT, 'examples', 'four-ranks'), '--section', 'roofline', text=True).stdout
    assert 'profgpu run --trace --torch-steps 5' in said.replace('\n', ' ') and 'profgpu attach' not in said, said


def test_a_script_is_recorded_first(profgpu, tmp_path):
    (tmp_path / 'train.py').write_text('import torch\nprint(1)\n')
    said = profgpu('analyze', 'train.py', text=True, cwd=tmp_path)
    assert said.returncode == 1 and 'to record it: profgpu run --trace -o rec -- python train.py' in said.stderr, said.stderr


def test_rules_come_before_words(profgpu):
    assert 'How it is computed' in profgpu('explain', 'untraced-work', text=True).stdout
    said = profgpu('explain', 'nothing-like-it', text=True)
    assert said.returncode == 2 and '`profgpu rules`' in said.stderr


def test_a_mistyped_command_runs_nothing(profgpu, tmp_path):
    for name in ('analise', 'init', 'frobnicate'):
        tool = tmp_path / name
        tool.write_text(f'#!/bin/sh\ntouch {tmp_path}/ran\n')
        tool.chmod(0o755)
        said = profgpu(name, 'x', text=True, env={**os.environ, 'PATH': f'{tmp_path}:{os.environ["PATH"]}'})
        assert said.returncode == 2 and f'"{name}" is not a command' in said.stderr
    assert 'profgpu run -- frobnicate' in said.stderr
    assert not (tmp_path / 'ran').exists()
    assert profgpu(tmp_path / 'frobnicate', env=os.environ).returncode == 0   # a path is meant
    assert (tmp_path / 'ran').exists()


@pytest.mark.parametrize('typed, hint', [
    ('-l 1', 'profgpu stat -l 1'), ('--loop 1', 'profgpu stat --loop'), ('-m full', 'profgpu top -m'), ('--logdir=./logs', 'profgpu analyze --logdir')])
def test_other_tools_options_alone(profgpu, typed, hint):
    said = profgpu(*typed.split(), text=True)
    assert said.returncode == 2 and hint in said.stderr, said.stderr
