"""What `profgpu bench` measures, beside what PyTorch measures on the same device.

Products, copies between host and device and within the device. Both may be a little lower at times, so the better of
two is compared. Everything else that was measured stands in the document.
"""
import json
import os
import subprocess
import sys

NEAR_PCT = 10
TORCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'bench_torch.py')


def check(name, ok, said):
    return {'name': name, 'ok': ok, 'said': said}


def torch_rates():
    done = subprocess.run([sys.executable, TORCH], capture_output=True, text=True, timeout=600, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def comparisons(figures, rates):
    for name, both in rates.items():
        ours = next((f for f in figures if f['name'] == name and f['device'] == 0), None)
        if ours is None:
            yield check(name, False, 'profgpu did not measure it')
            continue
        theirs = max(both)
        off_pct = 100 * (ours['best'] / theirs - 1)
        said = f'{ours["value"]:.4g} {ours["unit"]}, at best {ours["best"]:.4g}'
        yield check(name, abs(off_pct) <= NEAR_PCT, f'{said}; PyTorch {theirs:.4g} ({off_pct:+.1f} %)')


def run(machine):
    document, why = machine.profgpu_json('bench', '--json', 'launch', 'bandwidth', 'matmul', 'collectives',
                                         'overlap', 'crossover', 'burn', '--duration', '30')
    if document is None:
        return {'checks': [check('profgpu bench', None if machine.simulated else False, why)]}
    figures = document['figures']
    if machine.simulated:
        return {'checks': [check('figures (simulated)', None, f'{len(figures)}')], 'bench': document}
    rates = torch_rates()
    crossed = [f'{c["name"]} from {c["size"]}, with copies from {c["size_with_copies"]}' for c in document['crossover']]
    wrong = [n for n in document['not_measured'] if 'wrong' in n['why']]
    unsteady = [f['name'] for f in figures if f['spread_pct'] > 5]
    checks = [check('PyTorch measured', bool(rates), f'{len(rates)} rates'), *comparisons(figures, rates),
              check('spread', None, f'over 5 %: {", ".join(unsteady) or "none"}'),
              check('crossover', None, '; '.join(crossed) or 'nothing'),
              check('results under load', not wrong, '; '.join(n['why'] for n in wrong) or 'the same each time'),
              # With one device there are no collectives.
              check('not measured', None, '; '.join(f'{n["label"] or n["benchmark"]}: {n["why"]}'
                                                    for n in document['not_measured']) or 'nothing')]
    return {'checks': checks, 'bench': document}
