// Where tracks stand: headings for ranks and groups, below them tracks of one or more rows. Heights in CSS pixels.

import { TrackEvents, type Model, type TrackModel } from './model';

// On a phone a title is a target for a finger.
const narrow = typeof innerWidth === 'number' && innerWidth <= 600;
export const kRow = 18;
export const kSingleRow = narrow ? 32 : 22;
export const kCounter = narrow ? 46 : 36;   // on a phone its range is on a line of its own
export const kHeading = narrow ? 32 : 24;
const kBelowTrack = 4;
const kMostBands = 6;

export interface TrackView {
  model: TrackModel;
  title: string;
  rank: number;
  /** False: only the outermost row shows. */
  expanded: boolean;
  y: number;
  height: number;
  rows: number;
  row_height: number;
}

export interface Heading {
  title: string;
  level: number;
  rank: number;
  collapsed: boolean;
  children: (Heading | TrackView)[];
  /** What a collapsed heading shows as thin bands. */
  bands: TrackView[];
  y: number;
  height: number;
  /** False where the heading is left out because it would be the only one. */
  shown: boolean;
}

export type Line = Heading | TrackView;

export function isHeading(line: Line): line is Heading {
  return 'children' in line;
}

/** What a height of the plot shows. */
export interface Spot {
  line: Line;
  /** Of a track of events. */
  row: number;
}

export class Layout {
  readonly roots: Heading[];
  readonly tracks: TrackView[];
  /** Everything that shows, from top to bottom. */
  lines: Line[] = [];
  height = 0;
  /** Copies of tracks that stay above the others while these scroll. */
  readonly pinned: TrackView[] = [];
  pinned_height = 0;
  private readonly views_: Map<TrackModel, TrackView>;

  /** `rank`: the one that is open of many; the first where it has no tracks. */
  constructor(model: Model, rank?: number) {
    this.tracks = model.tracks.map(viewOf);
    this.views_ = new Map(this.tracks.map((view) => [view.model, view]));
    this.roots = headings(this.tracks, rank);
    compactMinorThreads(this.tracks);
    this.update();
  }

  update(): void {
    this.lines = [];
    this.height = 0;
    for (const root of this.roots) this.place(root);
    this.height += 12;
  }

  /** Pins a track, or lets it go. */
  pin(model: TrackModel): void {
    const at = this.pinned.findIndex((view) => view.model === model);
    if (at >= 0) this.pinned.splice(at, 1);
    else this.pinned.push({ ...this.viewOf(model), expanded: false });
    this.placePinned(0);
  }

  /** Opens a rank; its heading, or undefined where it has no tracks. */
  openRank(rank: number): Heading | undefined {
    const root = this.roots.find((heading) => heading.rank === rank);
    if (!root) return undefined;
    root.collapsed = false;
    this.update();
    return root;
  }

  /** Where pinned tracks stand when the plot is scrolled so far. */
  placePinned(scroll: number): void {
    this.pinned_height = 0;
    for (const view of this.pinned) {
      measure(view);
      view.y = scroll + this.pinned_height;
      this.pinned_height += view.height;
    }
  }

  at(y: number): Spot | undefined {
    const pinned = this.pinned.find((view) => view.y <= y && y < view.y + view.height);
    if (pinned) return { line: pinned, row: Math.min(Math.floor((y - pinned.y) / pinned.row_height), pinned.rows - 1) };
    const line = this.lines[this.firstBelow(y)];
    if (!line || y < line.y) return undefined;
    const row = isHeading(line) ? 0 : Math.floor((y - line.y) / line.row_height);
    return { line, row: isHeading(line) ? 0 : Math.min(row, line.rows - 1) };
  }

  viewOf(model: TrackModel): TrackView {
    return this.views_.get(model)!;
  }

  /** Lines of which a part lies between two heights. */
  within(top: number, bottom: number): Line[] {
    const from = this.firstBelow(top);
    let to = from;
    while (to < this.lines.length && this.lines[to].y < bottom) to++;
    return this.lines.slice(from, to);
  }

  // The first line that ends below `y`.
  private firstBelow(y: number): number {
    let low = 0;
    let high = this.lines.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.lines[middle].y + this.lines[middle].height <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Top and height of a track's row, of the heading that hides it, or of the row that stands for it. */
  rowBox(model: TrackModel, row: number): { y: number; height: number } {
    const view = this.viewOf(model);
    if (this.lines.includes(view))
      return { y: view.y + Math.min(row, view.rows - 1) * view.row_height, height: view.row_height };
    const hidden = this.lines.find((line) => isHeading(line) && line.collapsed && contains(line, view));
    return { y: hidden?.y ?? 0, height: hidden?.height ?? kHeading };
  }

  /** Opens what hides a row. */
  reveal(model: TrackModel, row: number): void {
    const view = this.viewOf(model);
    if (row > 0) view.expanded = true;
    const open = (heading: Heading): void => {
      if (!contains(heading, view)) return;
      heading.collapsed = false;
      for (const child of heading.children) if (isHeading(child)) open(child);
    };
    this.roots.forEach(open);
    this.update();
  }

  private place(line: Line): void {
    if (!isHeading(line)) {
      measure(line);
      line.y = this.height;
      this.lines.push(line);
      this.height += line.height;
      return;
    }
    line.y = this.height;
    line.height = line.shown ? kHeading : 0;
    if (line.shown) this.lines.push(line);
    this.height += line.height;
    if (!line.collapsed) for (const child of line.children) this.place(child);
  }
}

function contains(heading: Heading, view: TrackView): boolean {
  return heading.children.some((child) => (isHeading(child) ? contains(child, view) : child === view));
}

function viewOf(model: TrackModel): TrackView {
  const header = model instanceof TrackEvents ? model.header : model.series;
  return {
    model,
    title: header.title || model.kind,
    rank: model.rank,
    expanded: true,
    y: 0,
    height: 0,
    rows: 1,
    row_height: kSingleRow,
  };
}

function measure(view: TrackView): void {
  if (!(view.model instanceof TrackEvents)) {
    // What never changes needs a number, not a picture.
    view.row_height = view.model.levels.constant || view.model.bit !== undefined ? kSingleRow : kCounter;
    view.rows = 1;
  } else {
    view.rows = view.expanded ? view.model.row_count : 1;
    view.row_height = view.rows > 1 ? kRow : kSingleRow;
  }
  view.height = view.rows * view.row_height + kBelowTrack;
}

function heading(title: string, level: number, rank: number): Heading {
  return { title, level, rank, collapsed: false, children: [], bands: [], y: 0, height: 0, shown: true };
}

function headings(tracks: TrackView[], shown_rank: number | undefined): Heading[] {
  const ranks = new Map<number, Heading>();
  const groups = new Map<string, Heading>();
  for (const track of tracks) {
    let rank = ranks.get(track.rank);
    if (!rank) ranks.set(track.rank, (rank = heading(`rank ${track.rank}`, 0, track.rank)));
    const title = track.model.group;
    const key = `${track.rank} ${title}`;
    let group = groups.get(key);
    if (!group) {
      groups.set(key, (group = heading(title, 1, track.rank)));
      group.shown = title !== '';
      rank.children.push(group);
    }
    group.children.push(track);
  }
  const roots = [...ranks.values()];
  const open = roots.find((root) => root.rank === shown_rank) ?? roots[0];
  roots.forEach((root) => {
    root.shown = roots.length > 1;
    // Two ranks are open; more would only be scrolled past.
    root.collapsed = roots.length > 2 && root !== open;
    for (const group of root.children) if (isHeading(group)) group.bands = bandsOf(group.children.filter(isTrack));
    root.bands = bandsOf(root.children.flatMap((group) => (isHeading(group) ? group.children.filter(isTrack) : [])));
  });
  return roots;
}

function isTrack(line: Line): line is TrackView {
  return !isHeading(line);
}

function eventsOf(view: TrackView): number {
  return view.model instanceof TrackEvents ? view.model.header.events : 0;
}

function bandsOf(views: TrackView[]): TrackView[] {
  const rich = views.filter((view) => eventsOf(view) > 0);
  const most = new Set(
    [...rich].sort((a, b) => rankOf(a) - rankOf(b) || eventsOf(b) - eventsOf(a)).slice(0, kMostBands),
  );
  return rich.filter((view) => most.has(view));
}

// What says most of a rank in few pixels comes first.
function rankOf(view: TrackView): number {
  const order = ['stream', 'phase', 'idle', 'step', 'collective', 'thread', 'sync'].indexOf(view.model.kind);
  return order < 0 ? 9 : order;
}

// Of a rank's threads, those that are usually looked for: the first, which runs the program, and the one with most
// events.
function compactMinorThreads(views: TrackView[]): void {
  const first = new Map<number, TrackView>();
  const busiest = new Map<number, TrackView>();
  for (const view of views) {
    if (view.model.kind !== 'thread') continue;
    view.expanded = false;
    if (!first.has(view.rank)) first.set(view.rank, view);
    const other = busiest.get(view.rank);
    if (!other || eventsOf(view) > eventsOf(other)) busiest.set(view.rank, view);
  }
  for (const view of [...first.values(), ...busiest.values()]) view.expanded = true;
}
