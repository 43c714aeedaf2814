// What a person is told of a point of the plot, as lines of text.

import { categoryTitle } from '../categories';
import { shown } from '../views/dom';
import { count, duration, inUnit, percent } from '../views/quantity';
import type { Crowd, Hit } from './hit';
import { isHeading } from './layout';
import { TrackEvents, type Counter, type EventPlace, type Model } from './model';
import { preciseTime } from './time_text';

const kMostArgs = 6;

export function describeHit(model: Model, hit: Hit): string[] {
  const { line } = hit.spot;
  if (isHeading(line)) return [];
  if (!(line.model instanceof TrackEvents)) return [counterText(line.model, hit.time)];
  const { data } = model;
  if (hit.crowd) return describeCrowd(model, hit.crowd, hit.event);
  if (hit.event) return describeEvent(model, hit.event);
  if (hit.density) {
    const { busy, category } = hit.density;
    const kind = categoryTitle(data.categories[category] ?? '');
    const share = busy > 0 ? `busy ${percent(100 * busy, 0)}, mostly ${kind}` : 'nothing runs';
    return [share, 'Only the density of events is kept here; --html-steps keeps all of more steps.'];
  }
  return [];
}

function describeCrowd(
  model: Model,
  { count: events, from, to, busy }: Crowd,
  longest: EventPlace | undefined,
): string[] {
  const share = (ns: number) => percent((100 * ns) / (to - from), 0);
  const kinds = [...(busy?.by_category ?? [])]
    .sort((a, b) => b[1] - a[1])
    .slice(0, 3)
    .map(([category, ns]) => `${categoryTitle(model.data.categories[category] ?? '')} ${share(ns)}`);
  return [
    `${count(events)} events in ${duration(to - from)}`,
    ...(busy ? [`busy ${share(busy.busy_ns)}: ${kinds.join(', ')}`] : []),
    ...(longest ? [`longest: ${describeEvent(model, longest)[0]}`] : []),
  ];
}

export function describeEvent(model: Model, place: EventPlace): string[] {
  const { track, at } = place;
  const args = Object.entries(model.data.args[track.args[at] ?? 0] ?? {});
  const slow = track.slow[at] ?? 0;
  return [
    `${shown(model.label(place), 120)}  ${duration(track.duration[at])}`,
    `${categoryTitle(track.categoryId(at))}, starts at ${preciseTime(track.start[at])}`,
    ...(slow > 0 ? [`reduced clocks explain ${percent(slow / 10)} of it`] : []),
    ...args.slice(0, kMostArgs).map(([key, value]) => `${shown(key, 40)}: ${shown(value, 100)}`),
    ...(args.length > kMostArgs ? [`${args.length - kMostArgs} more: click`] : []),
  ];
}

export function counterText(counter: Counter, time: number): string {
  const at = counter.at(time);
  const value = at < 0 ? undefined : counter.levels.value[at] * (counter.bit === undefined ? counter.series.scale : 1);
  const text = counter.bit === undefined ? inUnit(value, counter.series.unit) : value ? 'yes' : 'no';
  return `${shown(counter.series.title, 80)}: ${text}`;
}
