// Ways to go on from what is in view or selected: the next gap, step, match or neighbour.

import type { EventPlace, Model, TrackEvents } from './model';
import type { Search } from './search';
import { gapsOf, type ChosenGap, type Selection } from './selection';
import type { Viewport } from './viewport';

/** What a jump does to the timeline. */
export interface JumpActions {
  select(place: EventPlace, move: boolean): void;
  selectGap(chosen: ChosenGap, at: number, move: boolean): void;
  tracksInView(): TrackEvents[];
  say(text: string): void;
}

export class Jumps {
  /** Of all ranks. */
  readonly gaps: ChosenGap[];
  private steps_: EventPlace[] = [];
  private gap_at_ = -1;
  /** A match that was asked for before the search had ended. */
  private waiting_: { backward: boolean } | undefined;

  constructor(
    private readonly model_: Model,
    private readonly viewport_: Viewport,
    private readonly selection_: Selection,
    private readonly search_: Search,
    private readonly actions_: JumpActions,
    private rank_: number,
  ) {
    this.gaps = gapsOf(this.model_);
    this.rank = rank_;
  }

  /** Whose steps follow. */
  set rank(rank: number) {
    this.rank_ = rank;
    this.steps_ = stepsOf(this.model_, rank);
  }

  /** Whether any rank has some. */
  get has_steps(): boolean {
    return this.model_.event_tracks.some((track) => track.kind === 'step' && track.header.events > 0);
  }

  /** To a gap that another view names, without moving. */
  toGap({ rank, device, start }: { rank: number; device: number; start: number }): void {
    const at = this.gaps.findIndex((g) => g.rank === rank && g.gap.device === device && g.gap.start === start);
    if (at < 0) return;
    this.gap_at_ = at;
    this.actions_.selectGap(this.gaps[at], at, false);
  }

  gap(by: number): void {
    const { gaps } = this;
    if (gaps.length === 0) {
      this.actions_.say('No gaps are known');
      return;
    }
    this.gap_at_ = this.gap_at_ < 0 ? (by > 0 ? 0 : gaps.length - 1) : (this.gap_at_ + by + gaps.length) % gaps.length;
    this.actions_.selectGap(gaps[this.gap_at_], this.gap_at_, true);
  }

  step(by: number): void {
    const { viewport_: viewport, steps_: steps } = this;
    if (steps.length === 0) {
      const of_rank = this.model_.data.ranks.length > 1 ? ` of rank ${this.rank_}` : '';
      this.actions_.say(`No steps${of_rank} are known`);
      return;
    }
    const centre = (viewport.start + viewport.end) / 2;
    const current = steps.findIndex(({ track, at }) => track.end(at) > centre);
    let next = current < 0 ? steps.length - 1 : Math.min(Math.max(current + by, 0), steps.length - 1);
    if (viewport.span > viewport.span_ns * 0.9) next = by > 0 ? 0 : steps.length - 1;
    const { track, at } = steps[next];
    viewport.fit(track.start[at], track.end(at), 0.03);
    this.actions_.select(steps[next], false);
  }

  /** Waits for the search, since the next match may be on a track that it has not looked at yet. */
  match(backward: boolean): void {
    this.waiting_ = this.search_.state.finished ? undefined : { backward };
    if (this.waiting_) return;
    const current = this.selection_.event?.place;
    const { start, end } = this.viewport_;
    const from = current ? current.track.start[current.at] : backward ? end : start;
    const place = this.search_.next(from, backward, current);
    if (place) this.actions_.select(place, true);
  }

  /** The search got further. */
  searched(): void {
    if (this.waiting_ && this.search_.state.finished) this.match(this.waiting_.backward);
  }

  /** A neighbour of the event that is selected; where none is, the one in the middle of the view. */
  beside(neighbour: (place: EventPlace) => EventPlace | undefined): void {
    const current = this.selection_.event?.place;
    const place = current ? neighbour(current) : this.middle();
    if (place) this.actions_.select(place, true);
  }

  /** To the event nearest to the middle of the view, on the topmost track in view that has one there. */
  toMiddle(): void {
    const place = this.middle();
    if (place) this.actions_.select(place, true);
  }

  private middle(): EventPlace | undefined {
    const { start, end } = this.viewport_;
    const time = (start + end) / 2;
    let nearest: EventPlace | undefined;
    let least = Infinity;
    for (const track of this.actions_.tracksInView()) {
      track.prepare();
      const row = track.rows[0];
      const id = row?.ids[Math.min(row.ids.length - 1, row.firstEndingAfter(time))];
      if (id === undefined) continue;
      const away = Math.max(0, track.start[id] - time, time - track.end(id));
      if (away >= least) continue;
      least = away;
      nearest = { track, at: id };
    }
    return nearest;
  }
}

function stepsOf(model: Model, rank: number): EventPlace[] {
  const track = model.event_tracks.find((t) => t.kind === 'step' && t.rank === rank && t.header.events > 0);
  if (!track) return [];
  track.prepare();
  return Array.from({ length: track.count }, (_, at) => ({ track, at }));
}
