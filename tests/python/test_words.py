"""What people type: words to explain, other tools' options, commands that do not exist."""
import os

import pytest


@pytest.mark.parametrize('word, meaning', [
    ('MFU', 'model FLOPs utilization'), ('mfu', 'model FLOPs utilization'), ('p95', '95 % stay below'), ('ddp', 'whole model'),
    ('host_bound', 'has not launched'), ('untraced work', 'recording lacks'), ('SM', 'streaming multiprocessor')])
def test_words_of_reports_are_explained(profgpu, word, meaning):
    said = profgpu('explain', word, text=True)
    assert said.returncode == 0 and meaning in said.stdout.replace('\n', ' '), said.stdout


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
    ('-l 1', 'profgpu stat -l'), ('--loop 1', 'profgpu stat --loop'), ('-m full', 'profgpu top -m'), ('--logdir=./logs', 'profgpu analyze --logdir')])
def test_other_tools_options_alone(profgpu, typed, hint):
    said = profgpu(*typed.split(), text=True)
    assert said.returncode == 2 and hint in said.stderr, said.stderr
