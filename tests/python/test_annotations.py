"""`--format sarif` and `--format github`: findings at lines of code, and names that would break out of them."""
import json
import os
import re

import pytest

from conftest import ROOT

DEMO = os.path.join(ROOT, 'examples', 'resnet-demo.json.gz')
LEVELS = {'info': 'note', 'warning': 'warning', 'critical': 'error'}
COMMAND = re.compile(r'::(notice|warning|error) ((?:\w+=[^:,\n]*,?)+)::([^\r\n]+)')


def events(*, file='/home/someone/repo/src/train.py', name='train'):
    """A loop in which a function of Python waits for the device: the finding names its line."""
    out = []
    for step in range(8):
        t = step * 100_000
        out += [{'ph': 'X', 'cat': 'user_annotation', 'name': f'ProfilerStep#{step}', 'pid': 1, 'tid': 1, 'ts': t, 'dur': 99_000},
                {'ph': 'X', 'cat': 'python_function', 'name': f'{file}(12): {name}', 'pid': 1, 'tid': 1, 'ts': t + 1, 'dur': 98_990,
                 'args': {'Python id': step * 2 + 1, 'Python parent id': None}}]
        for i in range(10):
            at, number = t + 10 + i * 9_000, step * 100 + i
            out += [{'ph': 'X', 'cat': 'cpu_op', 'name': 'aten::item', 'pid': 1, 'tid': 1, 'ts': at, 'dur': 8_500},
                    {'ph': 'X', 'cat': 'cuda_runtime', 'name': 'cudaLaunchKernel', 'pid': 1, 'tid': 1, 'ts': at + 1, 'dur': 5,
                     'args': {'correlation': number}},
                    {'ph': 'X', 'cat': 'kernel', 'name': 'gemm', 'pid': 0, 'tid': 7, 'ts': at + 10, 'dur': 4_000,
                     'args': {'device': 0, 'stream': 7, 'correlation': number}},
                    {'ph': 'X', 'cat': 'cuda_runtime', 'name': 'cudaStreamSynchronize', 'pid': 1, 'tid': 1, 'ts': at + 20, 'dur': 3_995,
                     'args': {'correlation': number + 50}}]
    return out


@pytest.fixture
def traced(tmp_path):
    def write(**more):
        path = tmp_path / 'trace.json'
        path.write_text(json.dumps({'schemaVersion': 1, 'traceEvents': events(**more)}))
        return path
    return write


def sarif(profgpu, *words, **more):
    result = profgpu('analyze', '--format', 'sarif', *words, **more)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_every_finding_is_a_result_with_its_rule(profgpu, analyze):
    report, document = analyze(DEMO), sarif(profgpu, DEMO)
    assert document['version'] == '2.1.0' and document['$schema'].endswith('sarif-2.1.0.json')
    run, = document['runs']
    rules = run['tool']['driver']['rules']
    assert [(r['ruleId'], r['level']) for r in run['results']] == [(f['rule'], LEVELS[f['severity']]) for f in report['findings']]
    for result in run['results']:
        rule = rules[result['ruleIndex']]
        assert rule['id'] == result['ruleId'] and rule['help']['markdown'] and rule['shortDescription']['text']
        uri = result['locations'][0]['physicalLocation']['artifactLocation']['uri']
        assert uri.startswith('file:///') and uri.endswith('examples/resnet-demo.json.gz')   # no line of code is known
        assert len(result['partialFingerprints']['profgpu/v1']) == 16
    assert run['properties'] == {'verdict': report['verdict'], 'verdict_kind': report['verdict_kind']}


def test_lines_of_code_are_found_in_this_repository(profgpu, traced, tmp_path):
    path = traced()
    (tmp_path / 'src').mkdir()
    (tmp_path / 'src' / 'train.py').write_text('')
    result = sarif(profgpu, path, cwd=tmp_path)['runs'][0]['results'][0]
    place = result['locations'][0]['physicalLocation']
    assert place == {'artifactLocation': {'uri': 'src/train.py', 'uriBaseId': '%SRCROOT%'}, 'region': {'startLine': 12}}
    assert result['locations'][0]['logicalLocations'][0]['name'] == 'train'
    shown = profgpu('analyze', '--format', 'github', path, cwd=tmp_path, text=True).stdout
    assert re.search(r'^::(warning|error) file=src/train\.py,line=12,title=profgpu%3A [\w-]+::', shown, re.M), shown


def test_a_file_that_is_not_here_keeps_its_own_path(profgpu, traced, tmp_path):
    result = sarif(profgpu, traced(), cwd=tmp_path)['runs'][0]['results'][0]
    assert result['locations'][0]['physicalLocation']['artifactLocation'] == {'uri': 'file:///home/someone/repo/src/train.py'}


@pytest.mark.parametrize('name', ['x::error::y', 'a\n::error title=x::y', 'b\r\n::warning::z', 'c%0A::notice::', '[press](https://e.example)',
                                  '{0} {1}', '\u202e\x1b[31m', ',line=1::'])
def test_names_cannot_break_out(profgpu, traced, tmp_path, name):
    path = traced(file=f'/r/{name}.py', name=name)
    lines = profgpu('analyze', '--format', 'github', path, cwd=tmp_path).stdout.decode().split('\n')
    assert lines[-1] == '' and len(lines) > 2
    for line in lines[:-1]:
        match = COMMAND.fullmatch(line)
        assert match and '\x1b' not in line and '\u202e' not in line, line
        assert {p.split('=')[0] for p in match[2].split(',')} <= {'file', 'line', 'title'}
    for result in sarif(profgpu, path, cwd=tmp_path)['runs'][0]['results']:
        text = result['message']['text']
        assert '](' not in text and not re.search(r'(?<!\{)\{(?!\{)', text) and not re.search('[\x00-\x1f\u202e]', text)
        for place in result['locations']:
            assert re.fullmatch(r"[A-Za-z0-9\-._~/%:]+", place['physicalLocation']['artifactLocation']['uri'])


def test_paths_do_not_leave_the_repository(profgpu, traced, tmp_path):
    (tmp_path / 'here').mkdir()
    (tmp_path / 'secret.py').write_text('')
    result = sarif(profgpu, traced(file='/x/../secret.py'), cwd=tmp_path / 'here')['runs'][0]['results'][0]
    assert result['locations'][0]['physicalLocation']['artifactLocation']['uri'] == 'file:///x/../secret.py'


def test_annotations_of_a_comparison(profgpu, simulate):
    healthy, slow = simulate('--steps', '10'), simulate('--steps', '10', '--fault', 'data-loading-bound')
    result = profgpu('diff', healthy, slow, '--fail-on', 'step_time > +3%', '--format', 'github', text=True)
    assert result.returncode == 3
    lines = result.stdout.splitlines()
    assert lines[0].startswith('::notice title=profgpu diff::') and lines[1].startswith('::error title=profgpu%3A step_time > +3%25::')
