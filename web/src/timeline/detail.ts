// Prepares tracks and builds their levels of detail while the browser has nothing else to do, what is in view first.

import { TrackEvents, type Row, type TrackModel } from './model';
import { Pyramid } from './pyramid';

/** Work without a look at the clock: events of a pyramid, about a millisecond of them. */
const kEventsPerLook = 20_000;
const kSlice_ms = 8;

export class Detail {
  private readonly pyramids_ = new Map<Row, Pyramid>();
  private readonly waiting_: Set<TrackEvents>;
  private scheduled_ = false;
  private disposed_ = false;
  private wanted_: () => readonly TrackModel[] = () => [];

  /** `prepared`: a track's rows are known now. `refined`: drawing again would be faster or show more. */
  constructor(
    tracks: TrackEvents[],
    private readonly windows_: [number, number][],
    private readonly prepared_: (track: TrackEvents) => void,
    private readonly refined_: () => void,
  ) {
    this.waiting_ = new Set(tracks);
  }

  pyramid(row: Row): Pyramid | undefined {
    return this.pyramids_.get(row);
  }

  get finished(): boolean {
    return this.waiting_.size === 0;
  }

  /** `wanted` names the tracks in view whenever the next to work on is chosen. */
  start(wanted: () => readonly TrackModel[]): void {
    this.wanted_ = wanted;
    this.schedule();
  }

  dispose(): void {
    this.disposed_ = true;
  }

  private schedule(): void {
    if (this.scheduled_ || this.disposed_ || this.finished) return;
    this.scheduled_ = true;
    const run = () => {
      this.scheduled_ = false;
      if (!this.disposed_) this.slice();
    };
    if (typeof requestIdleCallback === 'function') requestIdleCallback(run, { timeout: 200 });
    else setTimeout(run, 10);
  }

  private slice(): void {
    const until = performance.now() + kSlice_ms;
    while (!this.finished && performance.now() < until) this.work(this.next(), until);
    this.schedule();
  }

  private next(): TrackEvents {
    const waiting = this.wanted_().find((track): track is TrackEvents => track instanceof TrackEvents && this.waiting_.has(track));
    return waiting ?? this.waiting_.values().next().value!;
  }

  private work(track: TrackEvents, until: number): void {
    if (!track.prepared) {
      track.prepare();
      this.prepared_(track);
      return;
    }
    for (const row of track.rows) {
      let pyramid = this.pyramids_.get(row);
      if (!pyramid) this.pyramids_.set(row, (pyramid = new Pyramid(row, this.windows_)));
      while (!pyramid.done) {
        pyramid.advance(kEventsPerLook);
        if (performance.now() >= until) return;
      }
    }
    this.waiting_.delete(track);
    this.refined_();
  }
}
