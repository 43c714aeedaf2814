// Finds events by name or argument, in slices so that the page stays usable with millions of them.

import type { Numbers } from '../page_data';
import type { EventPlace, Model, Row, TrackEvents } from './model';

export interface Query {
  text: string;
  /** Only events of exactly this name. */
  exact: boolean;
}

const kSlice_ms = 8;
const kEventsPerLook = 50_000;

export interface SearchState {
  count: number;
  total_ns: number;
  /** False while tracks are still looked through. */
  finished: boolean;
}

export class Search {
  query: Query | undefined;
  state: SearchState = { count: 0, total_ns: 0, finished: true };
  private names_: Uint8Array = new Uint8Array(0);
  private args_: Uint8Array = new Uint8Array(0);
  private readonly found_ = new Map<Row, Uint32Array>();
  private timer_: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly model_: Model,
    private readonly changed_: () => void,
  ) {}

  get active(): boolean {
    return this.query !== undefined;
  }

  /** Matches of a row, by start; undefined while it has not been looked through. */
  found(row: Row): Uint32Array | undefined {
    return this.found_.get(row);
  }

  matches(track: TrackEvents, at: number): boolean {
    return this.names_[track.names[at]] === 1 || this.args_[track.args[at] ?? 0] === 1;
  }

  clear(): void {
    clearTimeout(this.timer_);
    this.query = undefined;
    this.found_.clear();
    this.state = { count: 0, total_ns: 0, finished: true };
    this.changed_();
  }

  run(query: Query): void {
    this.clear();
    if (query.text.trim() === '') return;
    this.query = query;
    this.names_ = matchingNames(this.model_, query);
    this.args_ = query.exact ? new Uint8Array(0) : matchingArgs(this.model_.data.args, query.text);
    this.state.finished = false;
    const walk = this.walk();
    const slice = () => {
      const until = performance.now() + kSlice_ms;
      let done: boolean | undefined = false;
      while (!done && performance.now() < until) done = walk.next().done;
      this.state.finished = done === true;
      this.changed_();
      if (!done) this.timer_ = setTimeout(slice, 0);
    };
    slice();
  }

  private *walk(): Generator<void> {
    for (const track of this.model_.event_tracks) {
      track.prepare();
      for (const row of track.rows) {
        const found: number[] = [];
        for (let from = 0; from < row.ids.length; from += kEventsPerLook) {
          this.look(row, from, found);
          yield;
        }
        this.found_.set(row, Uint32Array.from(found));
      }
      yield;
    }
  }

  private look({ ids, track }: Row, from: number, found: number[]): void {
    const { names, args, duration } = track;
    const { names_: names_match, args_: args_match, state } = this;
    const to = Math.min(ids.length, from + kEventsPerLook);
    for (let k = from; k < to; k++) {
      const id = ids[k];
      if (names_match[names[id]] !== 1 && (args_match.length === 0 || args_match[args[id] ?? 0] !== 1)) continue;
      found.push(id);
      state.count++;
      state.total_ns += duration[id];
    }
  }

  /** The next match after `time` (before it where `backward`), the first or last one where there is none further. */
  next(time: number, backward: boolean, current?: EventPlace): EventPlace | undefined {
    let best: EventPlace | undefined;
    let wrapped: EventPlace | undefined;
    const key = (place: EventPlace) => place.track.start[place.at];
    const order = (place: EventPlace) => this.model_.number(place);
    const before = (a: EventPlace, b: EventPlace) => key(a) < key(b) || (key(a) === key(b) && order(a) < order(b));
    const better = backward ? (a: EventPlace, b: EventPlace) => before(b, a) : before;
    const beyond = (place: EventPlace) => {
      if (current) return better(current, place);
      return backward ? key(place) < time : key(place) >= time;
    };
    for (const [row, ids] of this.found_) {
      if (ids.length === 0) continue;
      const { track } = row;
      const at = Math.min(ids.length - 1, lowerBound(ids, track.start, time));
      // Around the place found: equal starts are few.
      for (let k = at; k < ids.length; k++) {
        const place = { track, at: ids[k] };
        if (beyond(place) && (!best || better(place, best))) best = place;
        if (track.start[ids[k]] > time) break;
      }
      for (let k = at; k >= 0; k--) {
        const place = { track, at: ids[k] };
        if (beyond(place) && (!best || better(place, best))) best = place;
        if (track.start[ids[k]] < time) break;
      }
      const end = { track, at: ids[backward ? ids.length - 1 : 0] };
      if (!wrapped || better(end, wrapped)) wrapped = end;
    }
    return best ?? wrapped;
  }

  /** How many matches stand before an event: its place in the list that `next` walks. */
  position(place: EventPlace): number {
    const time = place.track.start[place.at];
    let before = 0;
    for (const [{ track }, ids] of this.found_) {
      let k = lowerBound(ids, track.start, time);
      before += k;
      for (; k < ids.length && track.start[ids[k]] === time; k++) {
        if (this.model_.number({ track, at: ids[k] }) < this.model_.number(place)) before++;
      }
    }
    return before;
  }
}

/** Number of ids whose start is before `time`. */
function lowerBound(ids: Uint32Array, start: Numbers, time: number): number {
  let low = 0;
  let high = ids.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (start[ids[middle]] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

function matchingNames(model: Model, { text, exact }: Query): Uint8Array {
  const wanted = text.trim().toLowerCase();
  return Uint8Array.from(model.data.strings, (name) => {
    if (exact) return name === text ? 1 : 0;
    return name.toLowerCase().includes(wanted) || model.short_names.get(name)?.toLowerCase().includes(wanted) ? 1 : 0;
  });
}

function matchingArgs(args: Record<string, string>[], text: string): Uint8Array {
  const wanted = text.trim().toLowerCase();
  const matching = Uint8Array.from(args, (of) =>
    Object.values(of).some((value) => value.toLowerCase().includes(wanted)) ? 1 : 0,
  );
  // Events without arguments have row 0, which says nothing.
  if (matching.length > 0) matching[0] = 0;
  return matching;
}
