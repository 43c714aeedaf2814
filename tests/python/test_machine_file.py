"""What `profgpu bench --save` measured of this machine: reports of its own devices use it, whoever asks for them."""
import json

import profgpu as package_of_profgpu
import pytest
from nsight_export import Export, step_loop

UUID = 'GPU-5eed0001-0000-4000-8000-0123456789ab'


@pytest.fixture
def trace(tmp_path):
    export = Export(tmp_path / 'report.sqlite')
    export.table('TARGET_INFO_GPU', 'id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER, uuid TEXT',
                 [(0, 'NVIDIA H100 80GB HBM3', 85_000_000_000, 132, UUID)])
    step_loop(export)
    return export.done()


@pytest.mark.parametrize('uuid, own', [(UUID, True), (UUID[:-1] + 'c', False)])
def test_reports_use_it_for_its_own_devices(profgpu, package, monkeypatch, trace, tmp_path, uuid, own):
    file = tmp_path / 'machine.json'
    file.write_text(json.dumps({'devices': [{'name': 'NVIDIA H100 80GB HBM3', 'uuid': uuid, 'tflops': {'bf16': 612.5},
                                             'memory_gbps': 2875}]}))
    monkeypatch.setenv('PROFGPU_MACHINE', str(file))
    documents = [json.loads(profgpu('analyze', '--json', trace).stdout),
                 json.loads(package_of_profgpu.analyze(trace).to_json())]
    for document in documents:
        limits = document['ranks'][0]['limits']
        assert limits['device'] == ('NVIDIA H100 80GB HBM3' if own else 'H100 SXM')
        assert (limits['memory_gbps'] == 2875) == own and limits['source'].startswith(f'{file}; what it lacks: ') == own, limits
        assert limits['cache_bytes'] and limits['host_link_gbps']
        peaks = {p['precision']: p['tflops'] for p in limits['peaks']}
        assert (peaks['bf16'] == 612.5) == own and peaks['fp8'] > 1000   # what was not measured is the vendor's
    # Rates that are named come first.
    file.with_name('peaks.json').write_text('{"devices": [{"memory_gbps": 1000}]}')
    peaks = json.loads(profgpu('analyze', '--json', trace, '--peaks', file.with_name('peaks.json')).stdout)
    assert peaks['ranks'][0]['limits']['memory_gbps'] == 1000


def test_peaks_of_the_very_device_come_first(profgpu, trace, tmp_path):
    peaks = tmp_path / 'two.json'
    peaks.write_text(json.dumps({'devices': [
        {'name': 'NVIDIA H100 80GB HBM3', 'uuid': UUID[:-1] + 'c', 'memory_gbps': 3000},
        {'name': 'NVIDIA H100 80GB HBM3', 'uuid': UUID, 'memory_gbps': 1500}]}))
    limits = json.loads(profgpu('analyze', '--json', trace, '--peaks', peaks).stdout)['ranks'][0]['limits']
    assert limits['memory_gbps'] == 1500


def test_a_result_of_storage_alone_is_taken(profgpu, trace, tmp_path):
    peaks = tmp_path / 'storage.json'
    peaks.write_text(json.dumps({'schema': 'profgpu.bench.v1', 'devices': [], 'figures': [
        {'benchmark': 'storage', 'name': 'read_disk', 'label': 'reads', 'value': 1.5, 'unit': 'GB/s'}]}))
    limits = json.loads(profgpu('analyze', '--json', trace, '--peaks', peaks).stdout)['ranks'][0]['limits']
    assert limits['memory_gbps'] == 3350   # its rates stay the vendor's


def test_a_broken_one_is_none(profgpu, monkeypatch, trace, tmp_path):
    for text in ('', '{', '{"devices": 1}', '\0'):
        (tmp_path / 'machine.json').write_text(text)
        monkeypatch.setenv('PROFGPU_MACHINE', str(tmp_path / 'machine.json'))
        result = profgpu('analyze', '--json', trace)
        assert result.returncode == 0 and 'vendor' not in result.stderr.decode()
        assert json.loads(result.stdout)['ranks'][0]['limits']['memory_gbps'] == 3350


def test_measured_rates_of_collectives_stand_for_the_link(analyze, simulate, tmp_path):
    traces = simulate('--ranks', '2', '--fault', 'low-bus-bandwidth')

    def finding(*words):
        found = [f for f in analyze(traces, *words)['findings'] if f['rule'] == 'low-bus-bandwidth']
        return found[0] if found else None

    plain = finding()
    gbps = float(plain['what'].split(' reaches ')[1].split()[0])
    op = plain['what'].split()[0]
    peaks = tmp_path / 'peaks.json'

    def measured(rate, ranks=2):
        peaks.write_text(json.dumps({'devices': [{'memory_gbps': 3000}], 'ranks': [{'rank': r} for r in range(ranks)], 'figures': [
            {'benchmark': 'collectives', 'name': op + '_268435456', 'unit': 'GB/s', 'value': rate, 'label': 'x'}]}))
        return finding('--peaks', peaks)

    assert measured(1.5 * gbps) is None   # the link gives no more
    slow = measured(10 * gbps)
    assert slow['value'] == pytest.approx(10, abs=1) and str(peaks) in slow['why'] and plain['value'] != slow['value']
    assert measured(1.5 * gbps, ranks=1)['value'] == plain['value']   # of fewer ranks: another link
