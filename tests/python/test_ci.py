"""deploy/ci: the gate of a pull request, run as GitHub and GitLab run it, with stand-ins for gh and curl."""
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from conftest import ROOT, program

GATE = os.path.join(ROOT, 'deploy', 'ci', 'profgpu-gate')

# Keeps what it was asked, answers with $REPLY, and with the content of what it would send.
STAND_IN = '''#!/usr/bin/env bash
printf '%s\\n' "$(basename "$0")" "$@" --- >> "$CALLS"
for word in "$@"; do
  case $word in *body=@* | body@*) cp "${word#*@}" "$CALLS.body" ;; esac
  case $word in @*) cat "${word#@}" >> "$CALLS.header" ;; esac
done
case "$*" in *PATCH* | *POST* | *PUT*) ;; *) printf '%s' "$REPLY" ;; esac
exit "${FAILS:-0}"
'''


class Machine:
    """A job of a runner: its folder, its variables, what it called."""

    def __init__(self, folder, base, head):
        self.folder, self.calls = folder, folder / 'calls'
        stand_ins = folder / 'bin'
        stand_ins.mkdir()
        for name in ('gh', 'curl'):
            (stand_ins / name).write_text(STAND_IN)
            (stand_ins / name).chmod(0o755)
        keep = {k: v for k, v in os.environ.items() if not k.startswith(('GITHUB_', 'CI_', 'PROFGPU_'))}
        self.environment = dict(keep, PATH=f'{stand_ins}:{os.environ["PATH"]}', CALLS=str(self.calls), REPLY='',
                                PROFGPU=program('PROFGPU', 'profgpu'), PROFGPU_BASE=str(base), PROFGPU_HEAD=str(head),
                                PROFGPU_FAIL_ON='step_time > +3%\n\n  finding:data-loading-bound  ')

    def run(self, rc, **more):
        result = subprocess.run([GATE], cwd=self.folder, env=dict(self.environment, **more), capture_output=True, text=True, timeout=60)
        assert result.returncode == rc, result.stderr
        return result

    def asked(self):
        return [c.split('\n') for c in self.calls.read_text().split('\n---\n') if c] if self.calls.exists() else []

    def body(self):
        return (self.folder / 'calls.body').read_text()


@pytest.fixture
def slower(simulate, tmp_path):
    return Machine(tmp_path, simulate('--steps', '10'), simulate('--steps', '10', '--fault', 'data-loading-bound'))


@pytest.fixture
def github(slower):
    slower.environment |= {'GITHUB_ACTIONS': 'true', 'GITHUB_REPOSITORY': 'someone/training', 'PROFGPU_PULL_REQUEST': '7',
                           'GITHUB_STEP_SUMMARY': str(slower.folder / 'summary'), 'GITHUB_OUTPUT': str(slower.folder / 'output')}
    return slower


@pytest.fixture
def gitlab(slower):
    slower.environment |= {'CI_API_V4_URL': 'https://gitlab.example/api/v4', 'CI_PROJECT_ID': '42', 'CI_MERGE_REQUEST_IID': '5',
                           'PROFGPU_GITLAB_TOKEN': 'glpat-notashowntoken'}
    return slower


def test_a_slower_run_fails_and_is_explained_where_it_is_reviewed(github):
    result = github.run(3)
    assert result.stdout.startswith('::notice title=profgpu diff::') and result.stdout.count('::error ') == 2
    summary = (github.folder / 'summary').read_text()
    assert 'step_time > +3%' in summary and '✗' in summary and (github.folder / 'profgpu.md').read_text() == summary
    assert (github.folder / 'output').read_text() == 'status=3\nreport=./profgpu.md\n'
    listed, posted = github.asked()
    assert listed[:3] == ['gh', 'api', '--paginate'] and 'repos/someone/training/issues/7/comments' in listed
    assert ['--method', 'POST'] == posted[3:5] and github.body() == summary
    cases = ElementTree.parse(github.folder / 'profgpu.xml').getroot()
    assert cases.get('failures') == '2' and cases.get('tests') == '2'


def test_the_next_run_replaces_the_comment(github):
    github.run(3, REPLY='1234\n')
    assert github.asked()[1][3:6] == ['--method', 'PATCH', 'repos/someone/training/issues/comments/1234']


def test_gates_of_one_pull_request_have_comments_of_their_own(github):
    github.run(3, PROFGPU_GATE_NAME='decode"; rm -rf /')
    assert github.body().startswith('<!-- profgpu gate: decode rm -rf  -->\n')
    assert any('startswith("<!-- profgpu gate: decode rm -rf  -->")' in word for word in github.asked()[0])


def test_a_comment_that_is_not_allowed_fails_no_gate(github):
    result = github.run(3, FAILS='1')
    assert 'the comment could not be written' in result.stderr
    github.environment['PROFGPU_HEAD'] = github.environment['PROFGPU_BASE']
    github.run(0, FAILS='1')


def test_without_a_pull_request_nothing_is_called(github):
    github.run(3, PROFGPU_PULL_REQUEST='')
    github.run(3, PROFGPU_COMMENT='false')
    assert github.asked() == []


def test_a_run_that_cannot_be_read_is_explained_too(github):
    (github.folder / 'broken.json').write_text('nothing')
    github.run(1, PROFGPU_HEAD='broken.json')
    assert 'broken.json' in github.body() and '```text' in github.body()


def test_an_undecided_gate_fails_unless_it_may(github):
    result = github.run(3, PROFGPU_FAIL_ON='power > +5%')
    assert '--allow-inconclusive lets it pass' in result.stderr and '::error title=profgpu%3A power' in result.stdout
    assert 'undecided' in github.body()
    result = github.run(0, PROFGPU_FAIL_ON='power > +5%', PROFGPU_ALLOW_INCONCLUSIVE='true')
    assert '::warning title=profgpu%3A power' in result.stdout


def test_settings_that_are_missing(slower):
    for name in ('PROFGPU_BASE', 'PROFGPU_HEAD', 'PROFGPU_FAIL_ON'):
        assert f'{name} is not set' in slower.run(2, **{name: ''}).stderr


def test_a_note_on_a_merge_request(gitlab):
    result = gitlab.run(3)
    assert '::' not in result.stdout
    posted = gitlab.asked()[-1]
    assert 'POST' in posted and posted[-1] == 'https://gitlab.example/api/v4/projects/42/merge_requests/5/notes'
    assert gitlab.body().startswith('<!-- profgpu gate: default -->')
    assert 'glpat' not in gitlab.calls.read_text()   # what a list of processes would show
    assert (gitlab.folder / 'calls.header').read_text().splitlines()[0] == 'PRIVATE-TOKEN: glpat-notashowntoken'


@pytest.mark.skipif(shutil.which('jq') is None, reason='jq finds the older note')
def test_the_next_run_replaces_the_note(gitlab):
    notes = [{'id': 1, 'body': 'hello'}, {'id': 99, 'body': '<!-- profgpu gate: default -->\n…'}]
    gitlab.run(3, REPLY=json.dumps(notes))
    assert 'PUT' in gitlab.asked()[-1] and gitlab.asked()[-1][-1].endswith('/notes/99')


def test_a_report_that_is_too_long_is_cut(github):
    fake = github.folder / 'profgpu'
    fake.write_text('#!/bin/sh\ncase "$*" in *markdown*) printf "é%.0s" $(seq 40000) ;; esac\n')
    fake.chmod(0o755)
    github.run(0, PROFGPU=str(fake))
    body = github.body()
    assert 59000 < len(body.encode()) < 62000 and body.endswith('… cut; the job has the whole report.\n')


def test_action_and_template_are_whole():
    yaml = pytest.importorskip('yaml')
    with open(os.path.join(ROOT, 'deploy', 'ci', 'action.yml'), encoding='utf-8') as file:
        action = yaml.safe_load(file)
    step, = action['runs']['steps']
    assert action['runs']['using'] == 'composite' and '${{' not in step['run']   # inputs are no script
    with open(GATE, encoding='utf-8') as file:
        script = file.read()
    used = [name for name in step['env'] if name.startswith('PROFGPU')]
    assert used and all(name in script for name in used)
    assert set(action['inputs']) == {v.split('inputs.')[1].split(' ')[0] for v in step['env'].values() if 'inputs.' in v}
    with open(os.path.join(ROOT, 'deploy', 'ci', 'gitlab.yml'), encoding='utf-8') as file:
        template = yaml.safe_load(file)['.profgpu-gate']
    assert template['script'] == ['profgpu-gate']   # in PATH, however profgpu was installed
    assert all(name in script for name in template['variables']) and template['artifacts']['reports']['junit'] == 'profgpu.xml'


def test_the_python_package_has_the_gate_as_a_program(tmp_path):
    """`pip install profgpu` puts profgpu-gate into PATH; its program is the package's own."""
    with open(os.path.join(ROOT, 'pyproject.toml'), encoding='utf-8') as file:
        assert 'profgpu-gate = "profgpu.__main__:gate"' in file.read()
    core = tmp_path / 'site' / 'profgpu' / 'core' / 'bin'
    shutil.copytree(os.path.join(ROOT, 'python', 'profgpu'), tmp_path / 'site' / 'profgpu')
    core.mkdir(parents=True)
    shutil.copy(GATE, core)
    (core / 'profgpu').write_text('#!/bin/sh\necho "own program: $*" >&2\nexit 3\n')
    (core / 'profgpu').chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(('GITHUB_', 'CI_', 'PROFGPU'))}
    run = [sys.executable, '-c', 'from profgpu.__main__ import gate; gate()']
    more = {'PYTHONPATH': str(tmp_path / 'site'), 'PROFGPU_BASE': 'a.json', 'PROFGPU_HEAD': 'b.json', 'PROFGPU_FAIL_ON': 'step_time > +3%'}
    done = subprocess.run(run, cwd=tmp_path, env={**environment, **more}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and 'own program: diff' in done.stderr, done.stderr
    done = subprocess.run(run, cwd=tmp_path, env={**environment, 'PYTHONPATH': more['PYTHONPATH']}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and 'PROFGPU_BASE is not set' in done.stderr
