// How busy a span is: the length of the union of all events, and of those of each category.

import type { Row, TrackEvents } from './model';

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

/** Length of the part of [start, end) whose events are all there. */
export function keptWithin(kept: readonly [number, number][], start: number, end: number): number {
  return kept.reduce((sum, [from, to]) => sum + Math.max(0, Math.min(end, to) - Math.max(start, from)), 0);
}
