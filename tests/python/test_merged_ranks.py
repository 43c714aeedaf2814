"""Ranks that SGLang merged into one file are read as the files that they were."""

import gzip
import json
import os
import shutil
import subprocess

import pytest
from conftest import program


def report(*paths):
    done = subprocess.run([program('PROFGPU', 'profgpu'), 'analyze', *map(str, paths), '--format', 'json'],
                          check=True, capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout)


def merged(files, labels):
    """As its merger does it: events one after the other, other fields of the first file that has them."""
    out = {'traceEvents': []}
    devices = []
    for path, label in zip(files, labels):
        trace = json.loads(path.read_text())
        for event in trace.pop('traceEvents'):
            out['traceEvents'].append({**event, 'pid': f'[{label}] {event["pid"]}'})
        devices += trace.pop('deviceProperties', [])
        for key, value in trace.items():
            out.setdefault(key, value)
    return {**out, 'deviceProperties': devices}


def without_names(document):
    """All that does not tell the files from each other."""
    return {key: value for key, value in document.items() if key not in ('inputs', 'next')}


@pytest.fixture
def job(simulate):
    return sorted(simulate('--ranks', '2', '--steps', '4', '--layers', '3').iterdir())


def written(path, document):
    with gzip.open(path, 'wt') as out:
        json.dump(document, out)
    return path


def test_the_report_is_that_of_the_files(job, tmp_path):
    both = written(tmp_path / 'merged.trace.json.gz', merged(job, ['TP00-DP00', 'TP01-DP00']))
    assert without_names(report(both)) == without_names(report(*job))


def test_pipeline_stages_come_before_tensor_ranks(job, tmp_path):
    labels = ['TP00-PP01', 'TP01-PP00']
    document = report(written(tmp_path / 'merged.json.gz', merged(job, labels)))
    assert [source['path'].rsplit(' ', 1)[1] for source in document['inputs']] == ['[TP01-PP00]', '[TP00-PP01]']
    assert [source['rank'] for source in document['inputs']] == [0, 1]


def test_what_has_no_label_is_left_out_and_said(job, tmp_path):
    trace = merged(job, ['TP00', 'TP01'])
    for event, pid in zip([e for e in trace['traceEvents'] if e['ph'] == 'X'][5:], (7, '[TP00 7', '[] 7')):
        event['pid'] = pid
    document = report(written(tmp_path / 'merged.json.gz', trace))
    said = [issue['text'] for source in document['inputs'] for issue in source['issues']]
    assert "rows left out because their process has no rank's label: 3" in said
    assert len(document['ranks']) == 2


def test_one_label(job, tmp_path):
    document = report(written(tmp_path / 'merged.json.gz', merged(job[:1], ['TP00'])))
    assert [rank['rank'] for rank in document['ranks']] == [0]


def test_beside_the_files_it_is_not_read_again(job, tmp_path):
    names = ['17-TP-0.trace.json', '17-TP-1.trace.json']
    for path, name in zip(job, names):
        shutil.copy(path, tmp_path / name)
    written(tmp_path / 'merged-17.trace.json.gz', merged(job, ['TP00', 'TP01']))
    assert [os.path.basename(source['path']) for source in report(tmp_path)['inputs']] == names


def test_other_files_beside_it_are_none_of_its_parts(job, tmp_path):
    (tmp_path / 'server_args.json').write_text('{"tp_size": 2}')
    written(tmp_path / 'merged-17.trace.json.gz', merged(job, ['TP00', 'TP01']))
    assert [source['rank'] for source in report(tmp_path)['inputs']] == [0, 1]
