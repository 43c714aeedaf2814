"""A part's document as a page."""

MARKS = {True: '✓', False: '✗', None: '·'}
COLUMNS = ('device', 'metric', 'nvidia_smi', 'rows', 'agreeing_pct', 'worst', 'tolerance', 'window_s', 'ok')
HEADINGS = ('GPU', 'metric', 'nvidia-smi', 'rows', 'agree %', 'worst', 'tolerance', 'window s', '')


def cell(value):
    if value is None:
        return '–'
    if isinstance(value, bool):
        return MARKS[value]
    text = f'{value:g}' if isinstance(value, float) else str(value)
    return text.replace('|', '\\|').replace('\n', ' ')


def table(headings, rows):
    lines = ['| ' + ' | '.join(headings) + ' |', '|' + ' --- |' * len(headings)]
    return '\n'.join(lines + ['| ' + ' | '.join(map(cell, row)) + ' |' for row in rows]) + '\n'


def tolerance(row):
    parts = [f'{row["absolute"]:g}'] if row['absolute'] or not row['relative'] else []
    return ' + '.join(parts + ([f'{100 * row["relative"]:g} %'] if row['relative'] else []))


def text(name, title, document):
    devices = ', '.join(f'{d["name"]} (driver {d["driver_version"]})' for d in document['devices'])
    out = f'# {title.rstrip(".")}\n\n'
    if document['simulated']:
        out += '**Simulated: stand-ins played the devices. Nothing below is a measurement.**\n\n'
    out += (f'Written by `scripts/gpu-check {name}` from `gpu-{name}.json`; not edited by hand.\n\n{devices}; '
            f'Linux {document["machine"]["kernel"]}, glibc {document["machine"]["glibc"]}, {document["machine"]["processors"]} '
            f'processors; {document["profgpu"]}; {document["seconds"]:g} s of load.\n\n')
    out += table(('check', '', 'what was seen'), [(c['name'], MARKS[c['ok']], c['said']) for c in document['checks']])
    rows = [r | {'tolerance': tolerance(r)} for r in document.get('fields', []) if r['ok'] is not None]
    if rows:
        out += '\n## Fields\n\n' + table(HEADINGS, [[r[c] for c in COLUMNS] for r in rows])
        silent = [r for r in document['fields'] if r['ok'] is None]
        out += '\nSaid by one of the two only, or by neither: ' + (
            '; '.join(f'{r["metric"]} of {r["device"]} ({r["said"]})' for r in silent) or 'none') + '.\n'
    others = document.get('not_said_by_nvidia_smi')
    if others:
        out += '\nWhat nvidia-smi has no field for: ' + ', '.join(others) + '.\n'
    return out
