"""Where the evidence is not enough, the verdict says what to record, and gates fail unless told otherwise."""
import json

import pytest

from flight_writer import Job


def samples(path, busy):
    row = {'device': 0, 'name': 'Test GPU', 'uuid': 'GPU-0', 'vendor': 'NVIDIA', 'memory_total_bytes': 80_000_000_000}
    path.write_text(''.join(json.dumps({'time_ns': 1_800_000_000_000_000_000 + i * 100_000_000, 'utilization_pct': busy,
                                        'memory_used_bytes': 1_000_000, 'power_w': 60, **row}) + '\n' for i in range(40)))
    return path


def host_only(path):
    path.write_text(json.dumps({'traceEvents': [
        {'ph': 'X', 'cat': 'cpu_op', 'name': 'aten::mm', 'pid': 1, 'tid': 1, 'ts': i * 100, 'dur': 90} for i in range(200)]}))
    return path


def one_kernel(path):
    path.write_text(json.dumps({'traceEvents': [
        {'ph': 'X', 'cat': 'cuda_runtime', 'name': 'cudaLaunchKernel', 'pid': 1, 'tid': 1, 'ts': 1, 'dur': 2, 'args': {'correlation': 1}},
        {'ph': 'X', 'cat': 'kernel', 'name': 'k', 'pid': 0, 'tid': 7, 'ts': 5, 'dur': 9,
         'args': {'device': 0, 'stream': 7, 'correlation': 1}}]}))
    return path


def calm_flight(path):
    job = Job({'0': ('default_pg', [0, 1])})
    job.done('0', 3)
    job.write(path)
    return path




CASES = {'samples of an idle GPU': (lambda f: samples(f / 'a.jsonl', 0), 'Take them while the job runs'),
         'a trace of the host': (lambda f: host_only(f / 'a.json'), 'was ProfilerActivity.CUDA on?'),
         'one kernel': (lambda f: one_kernel(f / 'a.json'), 'record a few whole steps'),
         'a job that did not hang': (lambda f: calm_flight(f / 'dumps'), 'while the job hangs')}


@pytest.mark.parametrize('case', CASES)
def test_the_verdict_says_what_to_record_and_the_gate_fails(case, profgpu, analyze, tmp_path):
    make, advice = CASES[case]
    path = make(tmp_path)
    report = analyze(path)
    assert report['verdict_kind'] == 'inconclusive' and advice in report['verdict']
    failed = profgpu('analyze', path, '--fail-on', 'critical', text=True)
    assert failed.returncode == 3 and '--fail-on: not enough evidence to decide: ' in failed.stderr
    assert '--allow-inconclusive lets such a run pass' in failed.stderr
    assert profgpu('analyze', path, '--fail-on', 'critical', '--allow-inconclusive').returncode == 0
    assert profgpu('analyze', path).returncode == 0   # a report is no gate


def test_samples_of_a_busy_gpu_are_decided(analyze, tmp_path):
    assert analyze(samples(tmp_path / 'a.jsonl', 97))['verdict_kind'] != 'inconclusive'


def test_a_gate_of_a_comparison(profgpu, simulate):
    run = simulate('--steps', '10')
    failed = profgpu('diff', run, run, '--fail-on', 'power > +5%', '--quiet', text=True)
    assert failed.returncode == 3 and "'power > +5%' is undecided and fails (--allow-inconclusive lets it pass)" in failed.stderr
    passed = profgpu('diff', run, run, '--fail-on', 'power > +5%', '--allow-inconclusive', text=True)
    assert passed.returncode == 0 and "'power > +5%' is undecided: " in passed.stderr


def test_a_finding_is_not_gone_where_nothing_can_be_found(profgpu, simulate, tmp_path):
    slow, blind = simulate('--steps', '10', '--fault', 'data-loading-bound'), host_only(tmp_path / 'blind.json')
    result = profgpu('diff', slow, blind, '--fail-on', 'finding:data-loading-bound', text=True)
    assert result.returncode == 3 and 'the run after has no GPU activity to tell' in result.stderr


def test_allow_inconclusive_needs_a_gate(profgpu, simulate):
    run = simulate('--steps', '10')
    assert profgpu('analyze', run, '--allow-inconclusive').returncode == 2
    assert profgpu('diff', run, run, '--allow-inconclusive').returncode == 2
