// Findings, most expensive first: what is seen, what it costs, what to change, and where to see it.

import { copyButton, element, button, shown, svg, type Child } from './dom';
import { evidenceOf, placeEvidence, whyNoEvidence, type Evidence } from './evidence';
import { counted, duration, percent } from './quantity';
import type { Analysis, Finding, Place, Severity } from './report';
import type { Asked } from '../timeline/panel';
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

// "Trainer: TrainingArguments(fp16=True)": what is copied is the setting alone.
function fixLine(text: string, paste: string | null): HTMLElement {
  if (paste === null) return element('li', {}, shown(text, 2000));
  const at = text.indexOf(paste);
  return element('li', { class: 'code' }, shown(text.slice(0, at)), element('code', {}, shown(text.slice(at), 2000)),
    copyButton(paste, 'this change'));
}

/** A time of all the steps that the finding's figures are of, per step. */
function perStep(ns: number, finding: Finding, { measured_steps }: Analysis): number {
  return ns / Math.max(1, finding.steps || measured_steps);
}

function costOf(finding: Finding, analysis: Analysis): HTMLElement {
  if (finding.cost_ns === null) return element('div', { class: 'cost quiet' }, 'cost not estimated');
  if (finding.cost_ns === 0) return element('div', { class: 'cost quiet' }, 'saves nothing alone');
  const bar = element('span', { class: 'bar' });
  bar.style.width = `${Math.min(100, finding.cost_pct ?? 0)}%`;
  const cost = duration(perStep(finding.cost_ns, finding, analysis), 2);
  const marked = analysis.has_steps;
  return element('div', { class: 'cost', title: marked ? 'What a step would not take without this cause, as the trace’s dependencies tell' : null },
    element('b', {}, marked ? `${cost} per step` : cost), element('span', { class: 'share' }, percent(finding.cost_pct, 0)),
    element('span', { class: 'track', 'aria-hidden': 'true' }, bar));
}

/** What of a finding a button shows: its place among the findings, and that of a place of the program. */
function idOf(finding: Finding, place: Place | undefined, { analysis }: Context): string {
  return [analysis.findings.indexOf(finding), ...(place ? [finding.where.indexOf(place)] : [])].join('_');
}

// The finding goes along, and the way back leads to the button that was pressed.
function askedBy(id: string, seen: Evidence, finding: Finding, context: Context): Asked {
  const lines = [`Shown: ${seen.text}`, ...finding.fix.slice(0, 2).map((fix) => `→ ${fix}`)];
  return { id, title: sentence(finding.what), lines, back: () => context.back(id) };
}

/** The finding that an address names; undefined where there is none. */
export function askedOfAddress(id: string, context: Context): Asked | undefined {
  const [index, of] = id.split('_').map(Number);
  const finding = context.analysis.findings[index ?? NaN];
  const place = of === undefined ? undefined : finding?.where[of];
  const seen = finding && (place ? placeEvidence(finding, place, context) : evidenceOf(finding, context));
  return seen && askedBy(idOf(finding, place, context), seen, finding, context);
}

function showButton(text: Child, attributes: Record<string, string>, seen: Evidence, finding: Finding, context: Context, place?: Place): HTMLButtonElement {
  const id = idOf(finding, place, context);
  return button(text, { ...attributes, 'data-shows': id }, () => context.show({ ...seen, asked: askedBy(id, seen, finding, context) }));
}

function sentence(clause: string): string {
  return clause.charAt(0).toUpperCase() + clause.slice(1);
}

// "in normalize (image_transforms.py:390): 105.7 ms per step"; leads to the longest such call where the file holds it.
function placeItem(finding: Finding, place: Place, context: Context): HTMLElement {
  const { analysis } = context;
  const time = duration(perStep(place.ns, finding, analysis));
  const file = place.file === null ? '' : ` (${place.file}:${place.line ?? 0})`;
  // Paths break behind a slash first.
  const name = element('span', {}, ...shown(place.name + file, 400).split(/(?<=\/)/).flatMap((part) => [part, element('wbr')]));
  const seen = placeEvidence(finding, place, context);
  return element('li', { class: 'at' }, element('span', { class: 'time' }, 'in '),
    seen ? showButton(name, { class: 'place', title: `Shows ${shown(seen.text, 120)}` }, seen, finding, context, place) : name,
    element('span', { class: 'time' }, element('span', { class: 'colon' }, ': '), analysis.has_steps ? `${time} per step` : time));
}

function findingItem(finding: Finding, context: Context): HTMLElement {
  const evidence = evidenceOf(finding, context);
  const many = context.analysis.ranks.length > 1;
  const ranks = many && finding.ranks.length > 0
    ? ` · rank${finding.ranks.length > 1 ? 's' : ''} ${rangesOf(finding.ranks)}` : null;
  const title = element('h3', {}, severityMark(finding.severity), element('span', {}, sentence(shown(finding.what, 1000))));
  const about = element('p', { class: 'about' }, finding.severity, ' · ', element('code', {}, finding.rule), ranks);
  const [place, ...places] = finding.where;
  const see = evidence && showButton(`Show ${shown(evidence.text, 120)}`,
    { 'class': 'see', 'aria-label': `Show ${shown(evidence.text, 120)} in the timeline: ${shown(finding.what, 200)}` }, evidence, finding, context);
  return element('li', { class: `finding ${finding.severity}`, 'data-rule': finding.rule },
    title, costOf(finding, context.analysis),
    about,
    place && element('ul', { class: 'evidence' }, placeItem(finding, place, context)),
    element('p', { class: 'why' }, shown(finding.why, 4000)),
    finding.fix.length > 0 && element('ul', { class: 'fix', 'aria-label': 'What to change' },
      ...finding.fix.map((text, i) => fixLine(text, finding.paste[i] ?? null))),
    element('ul', { class: 'evidence', 'aria-label': 'Evidence' },
      ...finding.evidence.map((text) => element('li', {}, shown(text, 1000))),
      ...places.map((other) => placeItem(finding, other, context))),
    see ?? leftOut(finding, context));
}

// In the place of the button.
function leftOut(finding: Finding, context: Context): Child {
  const why = whyNoEvidence(finding, context);
  return why !== null && element('p', { class: 'quiet' }, why);
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
  const { findings, has_steps, measured_steps: steps } = context.analysis;
  const scale = has_steps ? `average time lost per step (${counted(steps, 'step')})` : steps > 0 ? 'time lost in the whole trace' : '';
  return element('section', { class: 'findings', 'aria-labelledby': 'findings-title' },
    element('h2', { id: 'findings-title' }, 'Findings', element('span', { class: 'quiet' }, findings.length > 0 ? ['most expensive first', scale].filter(Boolean).join('; ') : '')),
    findings.length === 0
      ? element('p', { class: 'nothing' }, steps > 0
        ? 'No rule found anything to change. That is no all-clear: below is where the time goes, and what this recording cannot tell.'
        : 'No rule found anything to change.')
      : element('ol', {}, ...findings.map((finding) => findingItem(finding, context))));
}
