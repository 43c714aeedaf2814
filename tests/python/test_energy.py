"""Energy of steps, from samples beside traces, against the power that the simulator writes down."""
import json
import re

import pytest


@pytest.fixture
def job(simulate):
    """A simulated job's folder and its samples: 610 W all the time."""
    folder = simulate('--ranks', '2', '--steps', '20', '--layers', '24', '--samples')
    return folder, f'{folder}.samples.jsonl'


def test_energy_is_power_times_time(analyze, job):
    report = analyze(*job)
    assert len(report['ranks']) == 2
    for rank in report['ranks']:
        energy = rank['energy']
        total = energy['total']
        assert energy['method'] == 'integrated' and energy['missing'] is None
        mean_step_s = rank['measured']['wall_ns'] / rank['measured']['steps'] / 1e9
        assert total['steps'] == rank['measured']['steps'] == len(energy['by_step'])
        assert total['known_pct'] > 80
        assert total['energy_per_step_j'] == pytest.approx(610 * mean_step_s, rel=0.01)
        assert total['energy_delay_product_js'] == pytest.approx(total['energy_per_step_j'] * mean_step_s)
        assert total['cost'] is None and total['co2_g'] is None and total['energy_per_token_j'] is None
        for parts in (energy['phases'], [p for p in energy['parts'] if p['name'] != 'waiting_for_ranks']):
            assert sum(p['total_ns'] for p in parts) == total['wall_ns']
            assert sum(p['energy_j'] for p in parts if p['energy_j'] is not None) == pytest.approx(total['energy_j'])
    job_energy = report['job']['energy']
    assert job_energy['known_ranks'] == 2
    assert job_energy['energy_per_step_j'] == pytest.approx(
        sum(r['energy']['total']['energy_per_step_j'] for r in report['ranks']))


def test_rates_and_tokens_are_the_users(analyze, job):
    report = analyze(*job, '--price-kwh', '0.5', '--gco2-kwh', '300', '--tokens-per-step', '4x1024')
    total = report['ranks'][0]['energy']['total']
    kwh = total['energy_j'] / 3.6e6
    assert total['cost'] == pytest.approx(0.5 * kwh) and total['co2_g'] == pytest.approx(300 * kwh)
    assert total['energy_per_token_j'] == pytest.approx(total['energy_per_step_j'] / 4096)


def test_section_tables_and_words_agree(analyze, profgpu, job):
    energy = analyze(*job)['ranks'][0]['energy']
    rows = json.loads(profgpu('query', *job, 'select * from energy where rank = 0', '--json', '--quiet').stdout)
    parts = energy['phases'] + energy['parts']
    assert [(r['name'], r['total_ns']) for r in rows] == [(p['name'], p['total_ns']) for p in parts]
    assert [r['energy_j'] for r in rows] == pytest.approx([p['energy_j'] for p in parts])
    steps = json.loads(profgpu('query', *job, 'select * from step_energy where rank = 0', '--json', '--quiet').stdout)
    assert [s['energy_j'] for s in steps] == pytest.approx([s['energy_j'] for s in energy['by_step']])
    for options in ((), ('--format', 'markdown')):
        text = ' '.join(profgpu('analyze', *job, '--section', 'energy', *options).stdout.decode().split())
        assert 'a step takes' in text and 'Energy of 2 of 2 ranks' in text and 'CO2' not in text
        given = profgpu('analyze', *job, '--section', 'energy', '--gco2-kwh', '300', *options).stdout.decode()
        assert 'of CO2' in ' '.join(given.split())


def test_without_samples_it_says_how_to_get_them(analyze, profgpu, simulate):
    trace = simulate('--steps', '4', '--layers', '3')
    assert analyze(trace)['ranks'][0]['energy'] is None
    assert 'profgpu run --samples' in profgpu('analyze', trace, '--section', 'energy').stdout.decode()


def test_the_sampled_clock_scales_the_peaks(analyze, profgpu, job):
    """The simulator's clock is 1755 to 1770 MHz; an H100's peaks are at 1830 MHz."""
    for rank in analyze(*job)['ranks']:
        limits, roofline = rank['limits'], rank['roofline']
        assert 1755 <= limits['clock_mhz'] <= 1770 and limits['peak_clock_mhz'] == 1830
        ratio = limits['clock_mhz'] / 1830
        assert roofline['clock_mfu_pct'] == pytest.approx(roofline['mfu_pct'] / ratio)
        for peak in limits['peaks']:
            assert peak['clock_tflops'] == pytest.approx(peak['tflops'] * ratio)
        distance = rank['distance']
        assert sum(p['total_ns'] for p in distance['parts']) == distance['wall_ns']
        assert all(p['total_ns'] > 0 for p in distance['parts'])
    text = ' '.join(profgpu('analyze', *job, '--section', 'roofline').stdout.decode().split())
    assert 'what its clock of 1,7' in text


CONFIG = {'model_type': 'llama', 'hidden_size': 1024, 'intermediate_size': 4096, 'num_hidden_layers': 4,
          'num_attention_heads': 16, 'vocab_size': 32000, 'torch_dtype': 'bfloat16'}


def test_a_models_config_gives_mfu_without_shapes(analyze, profgpu, simulate, tmp_path):
    trace = simulate('--steps', '6', '--layers', '4', '--no-shapes')
    config = tmp_path / 'config.json'
    config.write_text(json.dumps(CONFIG))
    rank = analyze(trace, '--model-config', config, '--tokens-per-step', '8x512')['ranks'][0]
    assert rank['roofline']['mfu_pct'] is None
    model = rank['model']
    weights = 4 * (4 * 1024 * 1024 + 3 * 1024 * 4096) + 32000 * 1024
    assert model['training'] and model['flops_per_token'] == 6 * weights
    assert model['attention_flops_per_token'] == 3 * 4 * 4 * 16 * 64 * 513 / 2
    assert model['flops_per_step'] == 4096 * (model['flops_per_token'] + model['attention_flops_per_token'])
    wall_ns = rank['measured']['wall_ns'] / rank['measured']['steps']
    assert model['tflops'] == pytest.approx(model['flops_per_step'] / wall_ns / 1e3)
    assert 'billion weights' in profgpu('analyze', trace, '--model-config', config, '--section', 'model').stdout.decode()


@pytest.mark.parametrize('text, said', [
    ('no', b'no JSON object'), ('[]', b'no JSON object'), ('{"model_type": "llama"}', b'lacks num_hidden_layers'),
    (json.dumps({**CONFIG, 'num_attention_heads': -3}), b'not above 0'),
    (json.dumps({**CONFIG, 'hidden_size': 2 ** 62}), b'too large'),
])
def test_bad_configs_are_refused(profgpu, simulate, tmp_path, text, said):
    config = tmp_path / 'config.json'
    config.write_text(text)
    refused = profgpu('analyze', simulate('--steps', '4'), '--model-config', config)
    assert refused.returncode == 2 and said in refused.stderr


def test_a_model_of_unknown_type_is_a_note(profgpu, simulate, tmp_path):
    config = tmp_path / 'config.json'
    config.write_text('{"model_type": "unheard"}')
    shown = profgpu('analyze', simulate('--steps', '4'), '--model-config', config, '--section', 'model')
    assert shown.returncode == 0 and b'models of type "unheard" are not known' in shown.stdout


@pytest.mark.parametrize('option, value', [
    ('--tokens-per-step', '0'), ('--tokens-per-step', '8x'), ('--tokens-per-step', 'many'), ('--samples-per-step', '-1'),
    ('--price-kwh', '-0.1'), ('--gco2-kwh', 'nan'), ('--model-config', '/nowhere/config.json')])
def test_bad_amounts_are_refused(profgpu, simulate, option, value):
    refused = profgpu('analyze', simulate('--steps', '4'), option, value)
    assert refused.returncode == 2 and (option if option != '--model-config' else value).encode() in refused.stderr


def test_diff_says_which_part_of_the_distance_closed(profgpu, simulate):
    slow, fast = simulate('--steps', '8', '--fault', 'slow-products'), simulate('--steps', '8')
    diff = json.loads(profgpu('diff', slow, fast, '--json').stdout)
    assert diff['after_times_limit'] < diff['before_times_limit']
    parts = {p['name']: p for p in diff['distance']}
    assert diff['distance'][0]['name'] == 'products'
    assert parts['products']['after_ns'] < parts['products']['before_ns']
    assert sum(p['before_ns'] for p in diff['distance']) == pytest.approx(diff['before_step_ns'], abs=len(diff['distance']))
    text = ' '.join(profgpu('diff', slow, fast).stdout.decode().split())   # lines are wrapped
    assert re.search(r'x as fast \([0-9.]+x before\)', text) and 'Distance from the limit' in text
