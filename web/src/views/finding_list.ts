// Findings, dearest first: what is seen, what it costs, what to change, and where to see it.

import { copyButton, element, button, shown, svg } from './dom';
import { evidenceOf, placeEvidence } from './evidence';
import { duration, percent } from './quantity';
import type { Finding, Place, Severity } from './report';
import type { Context } from './view';

// Told apart by shape as much as by colour.
const kShapes: Record<Severity, string> = {
  critical: 'M7 0.5 L13.5 7 L7 13.5 L0.5 7 Z',
  warning: 'M7 1 L13.4 12.5 L0.6 12.5 Z',
  info: 'M7 1.5 A5.5 5.5 0 1 1 6.99 1.5 Z',
};

export function severityMark(severity: Severity): SVGElement {
  const known = kShapes[severity] ? severity : 'info';
  return svg('svg', { class: `mark ${known}`, viewBox: '0 0 14 14', width: 14, height: 14, role: 'img', 'aria-label': known },
    svg('path', { d: kShapes[known] }));
}

const kCode = /\w\(|\w=\S|^with |^--/;

// "Trainer: TrainingArguments(…)": what is copied is the setting alone.
function fixLine(text: string): HTMLElement {
  const [of = ''] = /^(?:[A-Z]|vLLM|xDiT)[\w-]*: /.exec(text) ?? [];
  const code = text.slice(of.length);
  if (!kCode.test(code)) return element('li', {}, shown(text, 2000));
  return element('li', { class: 'code' }, of, element('code', {}, shown(code, 2000)), copyButton(code, 'this change'));
}

function costOf(finding: Finding, steps: number): HTMLElement {
  if (finding.cost_ns === null) return element('div', { class: 'cost quiet' }, 'cost not estimated');
  const bar = element('span', { class: 'bar' });
  bar.style.width = `${Math.min(100, finding.cost_pct ?? 0)}%`;
  const per_step = steps > 0 ? `${duration(finding.cost_ns / steps)} a step` : duration(finding.cost_ns);
  return element('div', { class: 'cost' },
    element('b', {}, per_step), element('span', { class: 'share' }, percent(finding.cost_pct)),
    element('span', { class: 'track', 'aria-hidden': 'true' }, bar));
}

// "in normalize (image_transforms.py:390): 105.7 ms a step"; leads to the longest such call where the file holds it.
function placeItem(finding: Finding, place: Place, context: Context): HTMLElement {
  const { measured_steps: steps } = context.analysis;
  const file = place.file === null ? '' : ` (${place.file}:${place.line ?? 0})`;
  const name = shown(place.name + file, 400);
  const seen = placeEvidence(finding, place, context);
  return element('li', {}, 'in ',
    seen ? button(name, { class: 'place', title: `Shows ${shown(seen.text, 120)}` }, () => context.show(seen)) : name,
    `: ${steps > 0 ? `${duration(place.ns / steps)} a step` : duration(place.ns)}`);
}

function findingItem(finding: Finding, context: Context): HTMLElement {
  const evidence = evidenceOf(finding, context);
  const many = context.analysis.ranks.length > 1;
  const ranks = many && finding.ranks.length > 0
    ? element('span', { class: 'quiet' }, ` rank${finding.ranks.length > 1 ? 's' : ''} ${rangesOf(finding.ranks)}`) : null;
  const title = element('h3', {}, severityMark(finding.severity), element('code', {}, finding.rule),
    element('span', { class: 'severity' }, finding.severity), ranks);
  const see = evidence && button('Show in timeline', { class: 'see', title: `Shows ${shown(evidence.text, 120)}` }, () => context.show(evidence));
  return element('li', { class: `finding ${finding.severity}`, 'data-rule': finding.rule },
    title, costOf(finding, context.analysis.measured_steps),
    element('p', { class: 'what' }, shown(finding.what, 1000)),
    element('p', { class: 'why' }, shown(finding.why, 4000)),
    finding.fix.length > 0 && element('ul', { class: 'fix', 'aria-label': 'What to change' }, ...finding.fix.map(fixLine)),
    element('ul', { class: 'evidence', 'aria-label': 'Evidence' },
      ...finding.evidence.map((text) => element('li', {}, shown(text, 1000))),
      ...finding.where.map((place) => placeItem(finding, place, context))),
    see);
}

export function rangesOf(numbers: number[]): string {
  const ordered = [...numbers].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let i = 0; i < ordered.length;) {
    let end = i;
    while (end + 1 < ordered.length && ordered[end + 1]! - ordered[end]! <= 1) end++;
    parts.push(end > i ? `${ordered[i]}–${ordered[end]}` : String(ordered[i]));
    i = end + 1;
  }
  return parts.join(', ');
}

export function findingList(context: Context): HTMLElement {
  const { findings, measured_steps: steps } = context.analysis;
  const scale = steps > 0 ? `costs are wall time of ${steps} measured step${steps > 1 ? 's' : ''}, divided by them` : '';
  return element('section', { class: 'findings', 'aria-labelledby': 'findings-title' },
    element('h2', { id: 'findings-title' }, 'Findings', element('span', { class: 'quiet' }, findings.length > 0 ? ['dearest first', scale].filter(Boolean).join('; ') : '')),
    findings.length === 0
      ? element('p', { class: 'nothing' }, 'None: no rule found anything to change.')
      : element('ol', {}, ...findings.map((finding) => findingItem(finding, context))));
}
