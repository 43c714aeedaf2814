// What is at a point of the plot.

import { TrackEvents, type EventPlace, type Row } from './model';
import { busyWithin, type Busy } from './measure';
import { isHeading, type Layout, type Spot } from './layout';
import type { Viewport } from './viewport';

/** A box may be missed by this much, in CSS pixels. */
const kTolerance = 2;
/** Beyond it the events of a pixel are counted, but not looked at one by one. */
const kMostLookedAt = 20_000;

/** Several events too narrow to tell apart. */
export interface Crowd {
  from: number;
  to: number;
  count: number;
  /** Missing where they are too many to add up while the pointer moves. */
  busy?: Busy;
}

export interface Hit {
  spot: Spot;
  time: number;
  event?: EventPlace;
  /** Set where the pixel holds more than one event; `event` is the longest of them then. */
  crowd?: Crowd;
  /** Only density is known here. */
  density?: { category: number; busy: number };
}

export function hitTest(layout: Layout, viewport: Viewport, x: number, y: number): Hit | undefined {
  const spot = layout.at(y);
  if (!spot) return undefined;
  const hit: Hit = { spot, time: viewport.time(x) };
  const { line } = spot;
  if (isHeading(line) || !(line.model instanceof TrackEvents)) return hit;
  const row = line.model.rows[spot.row];
  if (row) eventAt(row, viewport, hit);
  if (!hit.event && spot.row === 0) hit.density = densityAt(line.model, hit.time);
  return hit;
}

function eventAt(row: Row, viewport: Viewport, hit: Hit): void {
  const { ids, track } = row;
  const near = kTolerance * viewport.ns_per_px;
  const first = row.firstEndingAfter(hit.time - near);
  if (first >= ids.length || track.start[ids[first]] > hit.time + near) return;
  const half = viewport.ns_per_px / 2;
  const k0 = row.firstEndingAfter(hit.time - half);
  const k1 = firstStartingAfter(row, hit.time + half, k0);
  if (k1 - k0 > 1) {
    const [from, to] = [hit.time - half, hit.time + half];
    hit.crowd = { from, to, count: k1 - k0, busy: k1 - k0 <= kMostLookedAt ? busyWithin([row], from, to) : undefined };
    let longest = ids[k0];
    for (let k = k0; k < Math.min(k1, k0 + kMostLookedAt); k++)
      if (track.duration[ids[k]] > track.duration[longest]) longest = ids[k];
    hit.event = { track, at: longest };
    return;
  }
  let best = first;
  for (let k = first; k < ids.length && track.start[ids[k]] <= hit.time + near; k++) {
    if (distance(track, ids[k], hit.time) < distance(track, ids[best], hit.time)) best = k;
  }
  hit.event = { track, at: ids[best] };
}

function distance(track: TrackEvents, id: number, time: number): number {
  return Math.max(0, track.start[id] - time, time - track.end(id));
}

function firstStartingAfter({ ids, track }: Row, time: number, from: number): number {
  let low = from;
  let high = ids.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (track.start[ids[middle]] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

function densityAt({ header: { density }, data, prepared }: TrackEvents, time: number): Hit['density'] {
  if (!density || (prepared && data.kept.some(([start, end]) => start <= time && time < end))) return undefined;
  const bin = Math.floor(time / density.bin_ns);
  const busy = data.column(density.busy)[bin];
  const category = data.column(density.category)[bin];
  return busy === undefined || category === undefined ? undefined : { category, busy: busy / 255 };
}
