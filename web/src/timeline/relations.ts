// Which call launched an event, and what an event and all below it launched.

import { TrackEvents, type EventPlace, type Model } from './model';

/** Launched events that are kept one by one; of the others only count and time. */
const kMostPlaces = 100;

export interface Launched {
  count: number;
  total_ns: number;
  /** By start, within each track. */
  places: EventPlace[];
}

export function launcherOf(model: Model, { track, at }: EventPlace): EventPlace | undefined {
  const link = track.links[at] ?? 0;
  return link > 0 ? model.place(link - 1) : undefined;
}

/** Looks through the links of every track: a few milliseconds for millions of events, and no map to keep. */
export function launchedBy(model: Model, place: EventPlace): Launched {
  const { track, at } = place;
  const low = model.number(place) + 1;
  const high = low + lastInside(track, at) - at;
  const launched: Launched = { count: 0, total_ns: 0, places: [] };
  for (const other of model.event_tracks) {
    if (other.header.link === undefined) continue;
    const links = other.links;
    other.prepare();
    for (let i = 0; i < links.length && i < other.count; i++) {
      if (links[i] < low || links[i] > high) continue;
      launched.count++;
      launched.total_ns += other.duration[i];
      if (launched.places.length < kMostPlaces) launched.places.push({ track: other, at: i });
    }
  }
  return launched;
}

/** The last event within another on a call stack: they follow it, deeper, in the order of their starts. */
function lastInside(track: TrackEvents, at: number): number {
  const depth = track.depth;
  if (depth.length === 0) return at;
  let last = at;
  while (last + 1 < track.count && depth[last + 1] > depth[at] && track.start[last + 1] < track.end(at)) last++;
  return last;
}

/** Who asked for what a call launched: the innermost op, module and line of the program around it. */
export interface Origin {
  op?: EventPlace;
  module?: EventPlace;
  source?: EventPlace;
}

const kModule = /^nn\.Module: /;
const kFrame = /\.pyx?\(\d+\): /;
/** Frames of the framework, which all launches share. */
const kFramework = /(?:^|\/)(?:torch|site-packages|dist-packages|lib\/python[\d.]+|contextlib|functools|threading|runpy)(?:\/|\.py)|^<(?:built-in|frozen)/;

export function originOf(call: EventPlace): Origin {
  const origin: Origin = {};
  for (let at: EventPlace | undefined = call; at; at = stacked(at, false)) {
    const name = at.track.name(at.at);
    const category = at.track.categoryId(at.at);
    if (category === 'op') origin.op ??= at;
    if (kModule.test(name)) origin.module ??= at;
    else if (category === 'python' && kFrame.test(name) && !kFramework.test(name)) origin.source ??= at;
    if (origin.source && origin.op && origin.module) break;
  }
  return origin;
}

/** The neighbour of an event on its row. */
export function beside(place: EventPlace, forward: boolean): EventPlace | undefined {
  const row = place.track.rows[place.track.depthOf(place.at)];
  const k = row ? row.ids.indexOf(place.at) + (forward ? 1 : -1) : -1;
  const at = row?.ids[k];
  return at === undefined ? undefined : { track: place.track, at };
}

/** The event around it, or the first one in it, on the same call stack. */
export function stacked({ track, at }: EventPlace, inner: boolean): EventPlace | undefined {
  const row = track.rows[track.depthOf(at) + (inner ? 1 : -1)];
  const id = row?.ids[row.firstEndingAfter(track.start[at])];
  if (id === undefined) return undefined;
  const holds = inner ? track.start[id] < track.end(at) : track.start[id] <= track.start[at];
  return holds ? { track, at: id } : undefined;
}
