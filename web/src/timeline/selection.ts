// What is picked out of the plot: an event with what it has to do with, a gap, a measured span.

import type { Gap } from '../page_data';
import type { EventPlace, Model } from './model';
import { launchedBy, launcherOf, type Launched } from './relations';

export interface Chosen {
  place: EventPlace;
  launcher?: EventPlace;
  launched: Launched;
}

export interface ChosenGap {
  rank: number;
  gap: Gap;
}

export interface Span {
  start: number;
  end: number;
  /** The rank whose devices are measured. */
  rank: number;
  /** Track under the pointer where it began. */
  on?: EventPlace['track'];
}

export class Selection {
  event: Chosen | undefined;
  gap: ChosenGap | undefined;
  span: Span | undefined;

  constructor(private readonly model_: Model) {}

  choose(place: EventPlace): void {
    this.gap = undefined;
    this.event = { place, launcher: launcherOf(this.model_, place), launched: launchedBy(this.model_, place) };
  }

  chooseGap(gap: ChosenGap): void {
    this.event = undefined;
    this.gap = gap;
  }

  clear(): void {
    this.event = this.gap = this.span = undefined;
  }

  get empty(): boolean {
    return !this.event && !this.gap && !this.span;
  }

  /** What "fit" fits: what was picked last. */
  get stretch(): [number, number] | undefined {
    const { event, gap, span } = this;
    if (event) return [event.place.track.start[event.place.at], event.place.track.end(event.place.at)];
    if (gap) return [gap.gap.start, gap.gap.start + gap.gap.duration];
    return span && [span.start, span.end];
  }
}

/** All gaps of all ranks, longest first. */
export function gapsOf(model: Model): ChosenGap[] {
  const all = model.data.ranks.flatMap((rank) => rank.gaps.map((gap) => ({ rank: rank.rank, gap })));
  return all.sort((a, b) => b.gap.duration - a.gap.duration || a.gap.start - b.gap.start);
}
