import './timeline.css';
import type { PageData } from '../page_data';
import type { Asked } from './panel';
import { Timeline, type Target } from './timeline';

export interface TimelineHandle {
  /** Shows a stretch, in ns since the trace's origin, picks out an event or a gap in it, and says what asked for it. */
  show(start_ns: number, end_ns: number, select?: Target, asked?: Asked): void;
  search(text: string): void;
  /** The rank that the keys are about. */
  setRank(rank: number): void;
  /** For an address. */
  readonly place: URLSearchParams;
  goTo(place: URLSearchParams, asked?: Asked): void;
  dispose(): void;
}

/** The timeline in `root`, which it fills; `root` has a height of its own or gets most of the window's. */
export function mountTimeline(root: HTMLElement, data: PageData, moved?: () => void, rank?: number): TimelineHandle {
  const timeline = new Timeline(root, data, moved, rank);
  return {
    show: (start, end, select, asked) => timeline.show(start, end, select, asked),
    search: (text) => timeline.search(text),
    setRank: (rank) => {
      timeline.rank = rank;
    },
    get place() {
      return timeline.place;
    },
    goTo: (place, asked) => timeline.goTo(place, asked),
    dispose: () => timeline.dispose(),
  };
}
