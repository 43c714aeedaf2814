import type { PageData } from '../page_data';
import type { Asked } from '../timeline/panel';
import type { Target } from '../timeline/timeline';
import type { Analysis, RankReport } from './report';

/** A stretch of the timeline, and what in it is meant. Nanoseconds since the trace's origin. */
export interface Stretch {
  start_ns: number;
  end_ns: number;
  target?: Target;
  /** Why, for the panel beside it. */
  asked?: Asked;
}

/** What a view is given. */
export interface Context {
  data: PageData;
  analysis: Analysis;
  /** The rank that is looked at: its report and its place in `analysis.ranks`. */
  rank: RankReport;
  rank_index: number;
  show(stretch: Stretch): void;
  /** To the button of the overview that shows a finding, by what `data-shows` says. */
  back(id: string): void;
  choose_rank(index: number): void;
  /** Puts into the address what a view shows. */
  remember(view: View, place: URLSearchParams): void;
}

/** "rank 3", where there are others; "" otherwise. */
export function rankName({ analysis, rank }: Context): string {
  return analysis.ranks.length > 1 ? `rank ${rank.rank}` : '';
}

/** What `remember` takes; without what is empty. */
export function placeOf(entries: Record<string, string>): URLSearchParams {
  return new URLSearchParams(Object.entries(entries).filter(([, text]) => text !== ''));
}

/** Turns the number of a row of one list into that of the same one in another. */
export function carryRow<Row>(place: URLSearchParams, from: Row[], to: Row[], same: (a: Row, b: Row) => boolean): void {
  const row = from[Number(place.get('row') ?? NaN)];
  const at = row === undefined ? -1 : to.findIndex((other) => same(row, other));
  if (at < 0) place.delete('row');
  else place.set('row', String(at));
}

/** Why nothing is known of the chosen rank but its report; null where its events are on the page. */
export function withoutEvents({ data, rank }: Pick<Context, 'data' | 'rank'>): string | null {
  return data.without_events.includes(rank.rank)
    ? `The page has no events of rank ${rank.rank}. --html-ranks ${rank.rank} puts them on one; profgpu merge, into a timeline.` : null;
}

export interface View {
  id: string;
  title: string;
  /** Whether it shows one rank at a time, and so is built again for another one. */
  of_rank: boolean;
  /** Why there is nothing to show, and how to get it; null where there is. */
  absent(context: Context): string | null;
  /** Builds the view; what it returns is called before its elements are thrown away. */
  mount(root: HTMLElement, context: Context): (() => void) | void;
  /** Of a view of all ranks that was built: another one is looked at. */
  follow?(context: Context): void;
  /** Shows what an address names, as `remember` was given it. */
  goTo?(place: URLSearchParams): void;
  /** What stays of a place where another rank is looked at: numbers are of the rank that they were written for. Without it, nothing. */
  carry?(place: URLSearchParams, from: RankReport, to: RankReport): void;
}
