// How busy a span is: the length of the union of all events, and of those of each category.

import type { EventPlace, Row, TrackEvents } from './model';

export interface Busy {
  busy_ns: number;
  /** By index of category; unions, so that streams side by side count once. */
  by_category: Map<number, number>;
  events: number;
}

interface Cursor {
  row: Row;
  k: number;
}

/** Busy time of rows taken together, within [start, end). */
export function busyWithin(rows: readonly Row[], start: number, end: number): Busy {
  const cursors: Cursor[] = [];
  for (const row of rows) {
    const k = row.firstEndingAfter(start);
    if (k < row.ids.length && row.track.start[row.ids[k]] < end) cursors.push({ row, k });
  }
  const busy: Busy = { busy_ns: 0, by_category: new Map(), events: 0 };
  const reached = new Map<number, number>();
  let reached_any = start;
  while (cursors.length > 0) {
    const cursor = earliest(cursors);
    const {
      row: { ids, track },
    } = cursor;
    const id = ids[cursor.k];
    const from = Math.max(start, track.start[id]);
    const to = Math.min(end, track.start[id] + track.duration[id]);
    const category = track.category[id];
    const before = reached.get(category) ?? start;
    busy.events++;
    busy.busy_ns += Math.max(0, to - Math.max(from, reached_any));
    busy.by_category.set(category, (busy.by_category.get(category) ?? 0) + Math.max(0, to - Math.max(from, before)));
    reached_any = Math.max(reached_any, to);
    reached.set(category, Math.max(before, to));
    cursor.k++;
    if (cursor.k >= ids.length || track.start[ids[cursor.k]] >= end) cursors.splice(cursors.indexOf(cursor), 1);
  }
  return busy;
}

function earliest(cursors: Cursor[]): Cursor {
  let first = cursors[0];
  for (const cursor of cursors) {
    if (cursor.row.track.start[cursor.row.ids[cursor.k]] < first.row.track.start[first.row.ids[first.k]])
      first = cursor;
  }
  return first;
}

/** Rows that say how busy a track is: all of a stream's, the outermost of a call stack. */
export function rowsThatCount(track: TrackEvents): Row[] {
  track.prepare();
  return track.header.depth === undefined ? track.rows : track.rows.slice(0, 1);
}

/** What of one name, stream or other key ran within a span, cut at its ends. */
export interface Ran {
  key: string;
  count: number;
  ns: number;
  /** The longest event of it. */
  longest: EventPlace;
}

/** Most time first. Of call stacks `self` takes each call without those inside it: bottom-up. */
export function ranWithin(
  tracks: readonly TrackEvents[],
  start: number,
  end: number,
  keyOf: (place: EventPlace) => string,
  self = false,
): Ran[] {
  const by_key = new Map<string, Ran>();
  for (const track of tracks) {
    track.prepare();
    const own = self ? selfTimes(track, start, end) : undefined;
    for (const row of track.rows) {
      for (let k = row.firstEndingAfter(start); k < row.ids.length && track.start[row.ids[k]] < end; k++) {
        const at = row.ids[k];
        const ns = own?.get(at) ?? clipped(track, at, start, end);
        const key = keyOf({ track, at });
        const ran = by_key.get(key);
        if (!ran) {
          by_key.set(key, { key, count: 1, ns, longest: { track, at } });
          continue;
        }
        ran.count++;
        ran.ns += ns;
        if (track.duration[at] > ran.longest.track.duration[ran.longest.at]) ran.longest = { track, at };
      }
    }
  }
  return [...by_key.values()].sort((a, b) => b.ns - a.ns);
}

function clipped(track: TrackEvents, at: number, start: number, end: number): number {
  return Math.max(0, Math.min(track.end(at), end) - Math.max(track.start[at], start));
}

/** By event: its time within the span less that of the calls right inside it. */
function selfTimes(track: TrackEvents, start: number, end: number): Map<number, number> {
  const own = new Map<number, number>();
  track.rows.forEach((row, depth) => {
    const above = track.rows[depth - 1];
    for (let k = row.firstEndingAfter(start); k < row.ids.length && track.start[row.ids[k]] < end; k++) {
      const at = row.ids[k];
      const ns = clipped(track, at, start, end);
      own.set(at, ns);
      const caller = above?.ids[above.firstEndingAfter(track.start[at])];
      const left = caller === undefined ? undefined : own.get(caller);
      if (left !== undefined && track.start[caller!] <= track.start[at]) own.set(caller!, Math.max(0, left - ns));
    }
  });
  return own;
}

/** Length of the part of [start, end) whose events are all there. */
export function keptWithin(kept: readonly [number, number][], start: number, end: number): number {
  return kept.reduce((sum, [from, to]) => sum + Math.max(0, Math.min(end, to) - Math.max(start, from)), 0);
}
