"""Nsight Compute's CSV: both forms in both number styles, alone and beside a trace; the command that records it."""
import csv
import io
import json
import re
import shlex

import pytest

HEADER = ['ID', 'Process ID', 'Process Name', 'Host Name', 'Kernel Name', 'Context', 'Stream', 'Block Size', 'Grid Size', 'Device', 'CC']
RAW = (('gpu__time_duration.sum', 'us'), ('sm__throughput.avg.pct_of_peak_sustained_elapsed', '%'),
       ('gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed', '%'), ('gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed', '%'),
       ('dram__bytes_read.sum', 'Mbyte'), ('dram__bytes_write.sum', 'Kbyte'), ('sm__warps_active.avg.pct_of_peak_sustained_active', '%'),
       ('sm__maximum_warps_per_active_cycle_pct', '%'), ('launch__registers_per_thread', 'register/thread'),
       ('smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio', 'inst'),
       ('smsp__average_warps_issue_stalled_wait_per_issue_active.ratio', 'inst'),
       ('smsp__average_warps_issue_stalled_selected_per_issue_active.ratio', 'inst'), ('idc__requests.sum', ''))
DETAILS = (('Duration', 'us'), ('Compute (SM) Throughput', '%'), ('Memory Throughput', '%'), ('DRAM Throughput', '%'), None, None, ('Achieved Occupancy', '%'),
           ('Theoretical Occupancy', '%'), ('Registers Per Thread', 'register/thread'), None, None, None, None)
# Name, grid, block, and values in the order of RAW.
LAUNCHES = [('void gemm<float>(float *, int)', (128, 2, 1), (256, 1, 1), (1234.5 + i, 81.25, 40.5, 30, 12.5, 500, 24.75, 25, 168, 3, 1, 1, 7)) for i in range(3)] + \
           [('copy_kernel(float *)', (64, 1, 1), (128, 1, 1), (10.25, 5.5, 91, 90.5, 2.25, 0, 60, 100, 16, 30, 10, 1, 7))]


def number(value, style):
    text = f'{value:,.2f}' if isinstance(value, float) else f'{value:,}'
    return text.translate(str.maketrans(',.', '.,')) if style == 'de' else text


def ncu(kind='raw', style='en', launches=LAUNCHES, noise='==PROF== Connected to process 4711 (python)\nloss: 0.5, done\n'):
    out = io.StringIO()
    rows = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator='\n')
    triple = lambda t: f'({t[0]}, {t[1]}, {t[2]})'   # noqa: E731
    head = [[i, 4711, 'python', 'h', n, 1, 7, triple(b), triple(g), 0, '9.0'] for i, (n, g, b, _) in enumerate(launches)]
    if kind == 'raw':
        rows.writerow(HEADER + [m for m, _ in RAW])
        rows.writerow([''] * len(HEADER) + [u for _, u in RAW])
        for start, (_, _, _, values) in zip(head, launches):
            rows.writerow(start + [number(v, style) for v in values])
    else:
        rows.writerow(HEADER + ['Section Name', 'Metric Name', 'Metric Unit', 'Metric Value', 'Rule Name', 'Rule Description'])
        for start, (_, _, _, values) in zip(head, launches):
            for metric, value in zip(DETAILS, values):
                if metric:
                    rows.writerow(start + ['Some Section', *metric, number(value, style), '', ''])
            rows.writerow(start + ['Memory', 'Memory Throughput', 'Gbyte/second', number(900, style), '', ''])   # another quantity
            rows.writerow(start + ['Some Section', '', '', '', 'Bottleneck', 'This kernel, "as is",\nis slow.'])
    return noise + out.getvalue()


def write(path, text):
    path.write_text(text)
    return path


def counters_of(analyze, *paths):
    report = analyze(*paths)
    return report['ranks'][0]['counters'], report


@pytest.mark.parametrize('style', ('en', 'de'))
@pytest.mark.parametrize('kind', ('raw', 'details'))
def test_alone(analyze, tmp_path, kind, style):
    counters, report = counters_of(analyze, write(tmp_path / 'ncu.csv', ncu(kind, style)))
    assert report['inputs'][0]['format'] == 'ncu'
    gemm, copy = counters['rows']
    assert (counters['launches'], gemm['launches'], copy['launches']) == (4, 3, 1)
    assert gemm['duration_ns'] == 1_235_500 and copy['duration_ns'] == 10_250   # means
    assert (gemm['sm_pct'], gemm['memory_pct'], gemm['dram_pct']) == (81.25, 40.5, 30)
    assert (gemm['occupancy_pct'], gemm['theoretical_occupancy_pct'], gemm['grid'], gemm['block']) == (24.75, 25, '128x2x1', '256x1x1')
    assert (gemm['bound'], copy['bound']) == ('compute', 'memory')
    if kind == 'raw':
        assert gemm['dram_bytes'] == 13_000_000 and gemm['stalls'] == 'long_scoreboard 75 %, wait 25 %'
    kernels = {k['name']: k for k in report['ranks'][0]['kernels']}
    assert kernels[LAUNCHES[0][0]]['total_ns'] == 3 * 1_235_500 and kernels[LAUNCHES[0][0]]['count'] == 3
    assert any('no times' in i['text'] for i in report['inputs'][0]['issues'])


def trace_of(tmp_path, kernels, shapes=True):
    """A trace of the profiler with an operator around each kernel: (name, grid, block, duration in us)."""
    events = [{'ph': 'X', 'cat': 'user_annotation', 'name': f'ProfilerStep#{s}', 'pid': 1, 'tid': 1, 'ts': s * 10_000, 'dur': 9_900} for s in range(3)]
    for s in range(3):
        for i, (name, grid, block, duration) in enumerate(kernels):
            n, at = s * 100 + i + 1, s * 10_000 + 100 + i * 2000
            args = {'External id': n}
            if shapes:
                args |= {'Input Dims': [[1024, 1024], [1024, 1024]], 'Input type': ['float', 'float'], 'Concrete Inputs': ['', '']}
            events += [{'ph': 'X', 'cat': 'cpu_op', 'name': 'aten::mm', 'pid': 1, 'tid': 1, 'ts': at, 'dur': 50, 'args': args},
                       {'ph': 'X', 'cat': 'cuda_runtime', 'name': 'cudaLaunchKernel', 'pid': 1, 'tid': 1, 'ts': at + 5, 'dur': 10, 'args': {'correlation': n}},
                       {'ph': 'X', 'cat': 'kernel', 'name': name, 'pid': 0, 'tid': 7, 'ts': at + 100, 'dur': duration,
                        'args': {'device': 0, 'stream': 7, 'correlation': n, 'grid': list(grid), 'block': list(block), 'External id': n}}]
    path = tmp_path / 'trace.json'
    path.write_text(json.dumps({'schemaVersion': 1, 'traceEvents': events, 'deviceProperties': [
        {'id': 0, 'name': 'NVIDIA H100 80GB HBM3', 'totalGlobalMem': 85_000_000_000, 'computeMajor': 9, 'computeMinor': 0, 'numSms': 132}]}))
    return path


KERNELS = [('void gemm<float>(float*, int)', (128, 2, 1), (256, 1, 1), 1500), ('other', (1, 1, 1), (32, 1, 1), 400)]


def test_beside_a_trace(analyze, tmp_path):
    trace = trace_of(tmp_path, KERNELS)
    counters, report = counters_of(analyze, trace, write(tmp_path / 'ncu.csv', ncu()))
    assert len(report['ranks']) == 1 and [i['format'] for i in report['inputs']] == ['kineto', 'ncu']
    assert '3 of its 4 launches' in report['inputs'][1]['issues'][0]['text']
    gemm = next(r for r in counters['rows'] if r['matched'])
    assert (gemm['name'], gemm['matched'], gemm['trace_launches'], gemm['trace_ns'], counters['matched']) == (KERNELS[0][0], 'name', 3, 1_500_000, 3)
    # By hand: the roofline's own rows for the kernel, and the distance to the multiprocessors' throughput.
    own = next(k for k in report['ranks'][0]['roofline']['kernels'] if k['name'] == KERNELS[0][0])
    assert gemm['limit_pct'] == pytest.approx(own['limit_pct'], rel=1e-4) and gemm['estimated_bound'] == own['bound']
    measured = {'compute': 81.25, 'memory': 30}.get(own['bound'], 81.25)
    assert gemm['limit_error_pct'] == pytest.approx(own['limit_pct'] - measured, rel=1e-4)
    assert gemm['bytes'] == pytest.approx(3 * 4 * 1024 * 1024, abs=1)
    assert gemm['bytes_error_pct'] == pytest.approx(100 * (3 * 4 * 1024 * 1024 - 13e6) / 13e6, rel=1e-6)
    assert counters['limit_error_pct'] == pytest.approx(abs(gemm['limit_error_pct']))
    # The trace's own figures are as without it.
    alone = analyze(trace)
    assert alone['ranks'][0]['kernels'] == report['ranks'][0]['kernels'] and alone['ranks'][0]['counters'] is None


def test_names_are_found_by_function_grid_and_order(analyze, tmp_path):
    trace = trace_of(tmp_path, [('void at::native::(anonymous namespace)::norm<float, 4>(float*)', (8, 1, 1), (64, 1, 1), 100),
                                ('void at::native::(anonymous namespace)::norm<double, 4>(double*)', (8, 1, 1), (64, 1, 1), 200),
                                ('void at::native::(anonymous namespace)::norm<double, 4>(double*)', (9, 1, 1), (64, 1, 1), 300),
                                ('tie<int>(x)', (7, 1, 1), (64, 1, 1), 10), ('tie<int>(y)', (7, 1, 1), (64, 1, 1), 10)])
    values = LAUNCHES[0][3]
    launches = [('norm<double, (int)4>(T1 *)', (8, 1, 1), (64, 1, 1), values), ('norm', (9, 1, 1), (64, 1, 1), values), ('norm', (10, 1, 1), (64, 1, 1), values),
                ('tie<int>(z)', (7, 1, 1), (64, 1, 1), values)]
    counters, report = counters_of(analyze, trace, write(tmp_path / 'ncu.csv', ncu(launches=launches)))
    found = {(r['grid'], r['matched']): r['trace_ns'] for r in counters['rows']}
    assert found == {('8x1x1', 'function'): 200_000, ('9x1x1', 'function'): 300_000, ('10x1x1', None): None, ('7x1x1', None): None}
    assert '1 could be several' in report['inputs'][1]['issues'][0]['text']


def test_another_program_says_so(analyze, tmp_path):
    counters, report = counters_of(analyze, trace_of(tmp_path, KERNELS[1:]), write(tmp_path / 'ncu.csv', ncu()))
    assert counters['matched'] == 0 and 'none of its kernels' in report['inputs'][1]['issues'][0]['text']


def test_ranks_need_a_name(analyze, simulate, tmp_path):
    job = simulate('--ranks', '2', '--steps', '6')
    traces = sorted(job.iterdir())
    report = analyze(*traces, write(tmp_path / 'ncu.csv', ncu()))
    assert len(report['ranks']) == 2 and 'rank' in report['inputs'][-1]['issues'][-1]['text']
    report = analyze(*traces, write(tmp_path / 'ncu-rank1.csv', ncu()))
    assert [r['counters'] is None for r in report['ranks']] == [True, False]


@pytest.mark.parametrize('damage', (
    lambda t: t[:len(t) // 2], lambda t: t.replace('"0"', '"zero"'), lambda t: t.replace(',', ';'), lambda t: t.replace('"', ''),
    lambda t: t.replace('(256, 1, 1)', '(99999999999999999999, -5)'), lambda t: t.replace('%', 'bananas'), lambda t: t + '"' + 'x' * 3_000_000,
    lambda t: t + '"9","1"\n' * 1000, lambda t: re.sub(r'"[\d.,]+"', '"n/a"', t)))
def test_damaged_files(profgpu, tmp_path, damage):
    result = profgpu('analyze', write(tmp_path / 'ncu.csv', damage(ncu())), '--json', text=True)
    assert result.returncode == 0 or result.stderr.startswith('profgpu: ')


def test_bytes_count_once_and_impossible_numbers_are_unknown(analyze, tmp_path):
    metrics = ['gpu__time_duration.sum', 'dram__bytes_read.sum', 'dram__bytes_write.sum', 'dram__bytes_op_read.sum', 'dram__bytes_op_write.sum']
    launches = {'both': (5, 100, 20, 100, 20), 'new': (5, '', '', 70, 7), 'huge': (5, 1e40, 20, '', ''), 'infinite': ('inf', 1e18, 1e17, '', '')}
    lines = [HEADER + metrics, [''] * len(HEADER) + ['ns'] + ['byte'] * 4]
    lines += [[str(i), '1', 'p', 'h', name, '1', '7', '(32, 1, 1)', '(1, 1, 1)', '0', '9.0', *(f'{v:.0f}' if isinstance(v, float) else v for v in values)]
              for i, (name, values) in enumerate(launches.items())]
    path = write(tmp_path / 'ncu.csv', ''.join(','.join(f'"{f}"' for f in line) + '\n' for line in lines))
    counters, _ = counters_of(analyze, path)
    rows = {r['name']: (r['duration_ns'], r['dram_bytes']) for r in counters['rows']}
    assert rows == {'both': (5, 120), 'new': (5, 77), 'huge': (5, 20), 'infinite': (None, 10**17)}


def test_a_cut_table_keeps_its_whole_rows(analyze, tmp_path):
    text = ncu()
    counters, report = counters_of(analyze, write(tmp_path / 'ncu.csv', text[:text.rindex('"copy_kernel') + 20]))
    assert counters['launches'] == 3 and any('no rows' in i['text'] for i in report['inputs'][0]['issues'])


def test_the_command_names_the_kernels_and_is_a_shell_line(profgpu, tmp_path):
    kernels = KERNELS + [("void quo'te<int>(x)", (2, 1, 1), (32, 1, 1), 90), ('small', (2, 1, 1), (32, 1, 1), 1)]
    trace = trace_of(tmp_path, kernels)
    result = profgpu('ncu-command', trace, '--program', 'python run.py', text=True)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.replace('\\\n', ' ').splitlines()
    words = shlex.split(next(line for line in lines if line.startswith('ncu --target')))
    pattern = words[words.index('--kernel-name') + 1].removeprefix('regex:')
    assert all(re.fullmatch(pattern, name) for name in ('gemm', 'other', "quo'te")) and not re.fullmatch(pattern, 'small')
    assert words[-2:] == ['python', 'run.py'] and int(words[words.index('--launch-skip') + 1]) >= 0
    assert int(words[words.index('--launch-count') + 1]) == 3, 'until each of them ran'
    one = profgpu('ncu-command', trace, '--kernels', '1', text=True).stdout
    assert "regex:'^gemm$'" in one and 'of its limit' in one


def test_the_command_leaves_out_what_has_no_name_and_keeps_letters(profgpu, tmp_path):
    long = 'k' * 3000
    trace = trace_of(tmp_path, [('', (2, 1, 1), (32, 1, 1), 900), ('ядро', (2, 1, 1), (32, 1, 1), 800), (long, (2, 1, 1), (32, 1, 1), 700)])
    line = profgpu('ncu-command', trace, text=True).stdout.replace('\\\n', ' ')
    words = shlex.split(next(line for line in line.splitlines() if line.startswith('ncu --target')))
    pattern = words[words.index('--kernel-name') + 1].removeprefix('regex:')
    assert re.fullmatch(pattern, 'ядро') and re.fullmatch(pattern, long) and not re.fullmatch(pattern, '') and len(pattern) < 500
    report = profgpu('analyze', trace_of(tmp_path, [('', (2, 1, 1), (32, 1, 1), 900)]), text=True).stdout
    assert '--kernel-name  ' not in report


def test_the_command_without_kernels_says_why(profgpu, simulate, tmp_path):
    path = tmp_path / 'cpu.json'
    path.write_text(json.dumps({'traceEvents': [{'ph': 'X', 'cat': 'cpu_op', 'name': 'aten::mm', 'pid': 1, 'tid': 1, 'ts': 1, 'dur': 5}]}))
    result = profgpu('ncu-command', path, text=True)
    assert result.returncode == 1 and 'no kernels' in result.stderr
    assert profgpu('ncu-command', path, '--kernels', '0').returncode == 2
