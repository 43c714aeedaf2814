// Which ops, modules and lines of the program kernels come from, over the events that the file holds.

import { button, element, shown } from './dom';
import { withMargin } from './evidence';
import { count, duration } from './quantity';
import { modelOf, type EventPlace, type Model } from '../timeline/model';
import { launcherOf, originOf, type Origin } from '../timeline/relations';
import type { PageData } from '../page_data';
import type { Context } from './view';

const kMostRows = 8;
/** More launches of a rank are not followed: the largest come first anyway. */
const kMostFollowed = 300_000;

/** Launches of one kernel from one place. */
export interface OriginRow {
  kernel: string;
  device: string;
  op: string;
  module: string;
  source: string;
  calls: number;
  ns: number;
  longest: EventPlace;
}

const known = new WeakMap<PageData, Map<number, OriginRow[]>>();

/** Most time first; made when it is first asked for. */
export function originsOf(data: PageData, rank: number): OriginRow[] {
  let of_data = known.get(data);
  if (!of_data) known.set(data, (of_data = new Map()));
  let rows = of_data.get(rank);
  if (!rows) of_data.set(rank, (rows = follow(modelOf(data), rank)));
  return rows;
}

function follow(model: Model, rank: number): OriginRow[] {
  const rows = new Map<string, OriginRow>();
  const origins = new Map<number, Origin>();   // by the launching call
  let followed = 0;
  for (const track of model.event_tracks) {
    if (track.rank !== rank || track.kind !== 'stream') continue;
    track.prepare();
    for (let at = 0; at < track.count && followed < kMostFollowed; at++) {
      const place = { track, at };
      const call = launcherOf(model, place);
      if (!call) continue;
      followed++;
      const number = model.number(call);
      let origin = origins.get(number);
      if (!origin) {
        call.track.prepare();
        origins.set(number, (origin = originOf(call)));
      }
      const name = (of: EventPlace | undefined) => (of ? of.track.name(of.at) : '');
      const kernel = track.name(at);
      // Layers of one class together.
      const module = name(origin.module).replace(/^nn\.Module: /, '').replace(/_\d+$/, '');
      const parts = [kernel, track.group, name(origin.op), module, name(origin.source)] as const;
      const key = parts.join('\n');
      const row = rows.get(key);
      if (!row) {
        const [, device, op, , source] = parts;
        rows.set(key, { kernel, device, op, module, source, calls: 1, ns: track.duration[at]!, longest: place });
        continue;
      }
      row.calls++;
      row.ns += track.duration[at]!;
      if (track.duration[at]! > row.longest.track.duration[row.longest.at]!) row.longest = place;
    }
  }
  return [...rows.values()].sort((a, b) => b.ns - a.ns);
}

/** "aten::conv2d · Conv2d_0 · train.py(12): forward"; each row shows its longest launch. */
export function originList(title: string, rows: OriginRow[], text: (row: OriginRow) => string[], context: Context): HTMLElement | null {
  if (rows.length === 0) return null;
  const show = ({ longest: { track, at } }: OriginRow) => context.show(withMargin(
    { start_ns: track.start[at]!, end_ns: track.end(at), target: { event: track.header.first + at } }, context.data.span_ns, 2));
  return element('div', { class: 'origins' }, element('h4', {}, title),
    element('ul', {}, ...rows.slice(0, kMostRows).map((row) => element('li', {},
      button(element('span', {}, ...text(row).filter(Boolean).map((part) => element('span', {}, shown(part, 160)))), { class: 'place', title: 'Shows the longest in the timeline' }, () => show(row)),
      element('span', { class: 'quiet' }, `${count(row.calls)} ×, ${duration(row.ns)}`)))),
    rows.length > kMostRows && element('p', { class: 'quiet' }, `and ${count(rows.length - kMostRows)} more`));
}
