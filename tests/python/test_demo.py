"""profgpu demo: a first look from the program alone; and the guide for agents."""
import json
import os
import shutil
import subprocess

from conftest import ROOT, program

DEMO = os.path.join(ROOT, 'examples', 'resnet-demo.json.gz')


def test_the_program_alone_shows_a_report(tmp_path):
    alone = tmp_path / 'profgpu'
    shutil.copy(program('PROFGPU', 'profgpu'), alone)
    shown = subprocess.run([alone, 'demo', '--color', 'never'], cwd='/', env={'PATH': '/nowhere'}, capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0 and shown.stderr == ''
    assert shown.stdout.startswith('built-in example (simulated)') and 'The GPU waits for data' in shown.stdout
    following = shown.stdout[shown.stdout.index('Next: '):]
    assert [part.strip() for part in following.removeprefix('Next:').replace('\n', '·').strip('·').split('·')] == [
        'profgpu explain data-loading-bound', 'profgpu demo --html demo.html', 'profgpu run --trace -o rec -- python train.py']


def test_it_is_the_report_of_the_example(profgpu, analyze):
    demo, report = json.loads(profgpu('demo', '--json').stdout), analyze(DEMO)
    for document in demo, report:
        del document['next']
        for source in document['inputs']:
            del source['path']
    assert demo == report


def test_a_page_and_the_trace_itself(profgpu, tmp_path):
    page, saved = tmp_path / 'demo.html', tmp_path / 'demo.json.gz'
    result = profgpu('demo', '--html', page, '--save', saved, text=True)
    assert result.returncode == 0 and f'xdg-open {page}' in result.stdout
    assert page.read_text(encoding='utf-8').startswith('<!doctype html>') and '/proc/self' not in page.read_text(encoding='utf-8')
    with open(DEMO, 'rb') as file:
        assert saved.read_bytes() == file.read()


def test_a_page_that_cannot_be_written(profgpu, tmp_path):
    result = profgpu('demo', '--html', tmp_path / 'no' / 'demo.html', text=True)
    assert result.returncode == 1 and 'The GPU waits for data' in result.stdout and 'demo.html' in result.stderr


def test_the_guide_for_agents_is_in_the_program(profgpu):
    with open(os.path.join(ROOT, 'AGENTS.md'), 'rb') as file:
        assert profgpu('help', 'agents').stdout == file.read()
