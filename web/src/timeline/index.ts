import './timeline.css';
import type { PageData } from '../page_data';
import { Timeline, type Target } from './timeline';

export interface TimelineHandle {
  /** Shows a stretch, in ns since the trace's origin, and picks out an event (by its number) or a gap in it. */
  show(start_ns: number, end_ns: number, select?: number | Target): void;
  search(text: string): void;
  dispose(): void;
}

/** The timeline in `root`, which it fills; `root` has a height of its own or gets most of the window's. */
export function mountTimeline(root: HTMLElement, data: PageData): TimelineHandle {
  const timeline = new Timeline(root, data);
  return {
    show: (start, end, select) => timeline.show(start, end, typeof select === 'number' ? { event: select } : select),
    search: (text) => timeline.search(text),
    dispose: () => timeline.dispose(),
  };
}
