// Ties the parts together: what the user does changes viewport, layout, selection or search, and one frame later all of
// it is drawn.

import { categoryTitle } from '../categories';
import type { PageData } from '../page_data';
import { shown } from '../views/dom';
import { duration } from '../views/quantity';
import { settled } from '../views/settled';
import { isDark, onTheme } from '../views/theme';
import { hideTip, showTip } from '../views/tooltip';
import { drawAxis, kAxis } from './axis';
import { counterText, describeHit } from './describe';
import { Detail } from './detail';
import { Painter } from './draw';
import { hitTest, type Hit } from './hit';
import { isHeading, Layout } from './layout';
import { Counter, modelOf, TrackEvents, type EventPlace, type Model } from './model';
import { Minimap } from './minimap';
import { Overlay } from './overlay';
import { paletteOf } from './palette';
import { isOfDevice, Panel, trackTitle, type Asked } from './panel';
import { Pointer } from './pointer';
import { beside, stacked } from './relations';
import { Search } from './search';
import { Jumps } from './jumps';
import { Selection, type ChosenGap } from './selection';
import { Shortcuts } from './shortcuts';
import { Titles } from './titles';
import { Toolbar } from './toolbar';
import { buildView, type View } from './view';
import { Viewport } from './viewport';
import { showTimelineKeys } from './key_list';

const kMinimap = 44;

export interface Target {
  event?: number;
  gap?: { rank: number; device: number; start: number };
  span?: { start: number; end: number; rank: number };
  /** An event whose track is meant, not the event. */
  track?: number;
}

export class Timeline {
  private readonly model_: Model;
  private readonly layout_: Layout;
  private readonly viewport_: Viewport;
  private readonly selection_: Selection;
  private readonly search_: Search;
  private readonly detail_: Detail;
  private readonly jumps_: Jumps;
  private readonly painter_: Painter;
  private readonly overlay_: Overlay;
  private readonly minimap_: Minimap;
  private readonly titles_: Titles;
  private readonly panel_: Panel;
  private readonly toolbar_: Toolbar;
  private readonly view_: View;
  private readonly end_: (() => void)[] = [];
  private scroll_ = 0;
  private height_ = 1;
  private ratio_ = 1;
  private frame_ = 0;
  private pointer_: { x: number; y: number } | undefined;
  private hit_: Hit | undefined;
  private rows_known_ = 0;
  private readonly settled_ = settled(() => this.moved_());

  /** `moved`: what is in view or selected is another. `rank`: whose steps and devices the keys are about. */
  constructor(
    private readonly root_: HTMLElement,
    data: PageData,
    private readonly moved_: () => void = () => {},
    private rank_: number = data.ranks[0]?.rank ?? 0,
  ) {
    this.model_ = modelOf(data);
    this.layout_ = new Layout(this.model_, rank_);
    this.viewport_ = new Viewport(data.span_ns);
    this.selection_ = new Selection(this.model_);
    this.search_ = new Search(this.model_, () => this.searched());
    this.jumps_ = new Jumps(this.model_, this.viewport_, this.selection_, this.search_, {
      select: (place, move) => this.select(place, move),
      selectGap: (chosen, at, move) => this.selectGap(chosen, at, move),
      tracksInView: () => this.tracksInView(),
      say: (text) => this.say(text),
    }, rank_);
    const everything: [number, number][] = [[-Infinity, Infinity]];
    this.detail_ = new Detail(
      this.model_.event_tracks,
      data.kept.length > 0 ? data.kept : everything,
      () => this.draw(),
      () => this.refined(),
    );
    this.toolbar_ = new Toolbar(this.toolbarActions(), {
      gaps: this.jumps_.gaps.length > 0,
      steps: this.jumps_.has_steps,
    });
    this.view_ = buildView(root_, this.toolbar_.root);
    const palette = paletteOf(root_, data.categories, isDark());
    const { plot_canvas, overlay_canvas, minimap_canvas, titles, panel, scroller, plot } = this.view_;
    const { model_: model, layout_: layout, viewport_: viewport, detail_: detail, selection_: selection } = this;
    this.painter_ = new Painter(plot_canvas, model, layout, viewport, detail, this.search_, palette);
    this.overlay_ = new Overlay(overlay_canvas, model, layout, viewport, selection, palette);
    this.minimap_ = new Minimap(minimap_canvas, layout, viewport, detail, palette, () => this.draw());
    this.titles_ = new Titles(titles, layout, () => this.folded());
    this.panel_ = new Panel(
      panel,
      model,
      selection,
      {
        go: (place) => this.go(place),
        allOfName: (place) => this.searchFor({ text: place.track.name(place.at), exact: true }),
        fit: () => this.fit(),
        clear: () => this.clearSelection(),
      },
      palette,
    );
    this.panel_.show();
    new Pointer(plot, this.pointerActions());
    titles.addEventListener('wheel', (event) => this.wheelOverTitles(event), { passive: false });
    scroller.addEventListener('scroll', () => {
      this.scroll_ = scroller.scrollTop;
      this.draw();
    });
    this.end_.push(new Shortcuts(root_, plot, this.keyActions()).dispose);
    this.end_.push(onTheme(() => this.recolour()));
    const sizes = new ResizeObserver(() => this.resize());
    sizes.observe(plot);
    this.end_.push(() => sizes.disconnect());
    this.resize();
    detail.start(() => this.tracksInView());
  }

  /** Another rank is shown: its tracks are brought into view. */
  set rank(rank: number) {
    if (rank === this.rank_) return;
    this.jumps_.rank = this.rank_ = rank;
    const heading = this.layout_.openRank(rank);
    if (heading) this.scroll_ = heading.y;
    else this.say(`The page has no events of rank ${rank}; --html-ranks ${rank} puts them on one`);
    this.folded();
  }

  dispose(): void {
    this.end_.forEach((end) => end());
    this.detail_.dispose();
    this.search_.clear();
    cancelAnimationFrame(this.frame_);
    this.settled_.cancel();
    hideTip();
    this.root_.replaceChildren();
  }

  show(start: number, end: number, target: Target = {}, asked?: Asked): void {
    this.viewport_.set(start, end);
    this.selection_.clear();
    this.toolbar_.showGap('');
    this.panel_.asked = asked;
    const place = target.event === undefined ? undefined : this.model_.place(target.event);
    if (place) this.select(place, false);
    const track = target.track === undefined ? undefined : this.model_.place(target.track)?.track;
    if (track) this.reveal(track, 0);
    if (target.gap) this.jumps_.toGap(target.gap);
    this.selection_.span = target.span;
    this.panel_.show();
    this.view_.panel.hidden = false;
    if (asked) this.panel_.focus();
    this.draw();
  }

  /** What is in view and selected: "t" from and to, then an event's number, a gap or a span, the search, pinned tracks. */
  get place(): URLSearchParams {
    const { event, gap, span } = this.selection_;
    const { start, end } = this.viewport_;
    const place = new URLSearchParams({ t: [start, end].map(Math.round).join('_') });
    if (this.panel_.asked) place.set('finding', this.panel_.asked.id);
    if (event) place.set('event', String(this.model_.number(event.place)));
    else if (gap) place.set('gap', [gap.rank, gap.gap.device, gap.gap.start].join('_'));
    else if (span) place.set('span', [span.rank, Math.round(span.start), Math.round(span.end)].join('_'));
    if (this.search_.query) place.set(this.search_.query.exact ? 'name' : 'q', this.search_.query.text);
    const pinned = this.layout_.pinned.map((view) => this.model_.tracks.indexOf(view.model));
    if (pinned.length > 0) place.set('pin', pinned.join('_'));
    return place;
  }

  /** `asked`: for what another view showed it. */
  goTo(place: URLSearchParams, asked?: Asked): void {
    const numbers = (key: string, count: number) => {
      const list = (place.get(key) ?? '').split('_').map(Number);
      return list.length === count && list.every((n) => Number.isFinite(n)) ? list : undefined;
    };
    const view = numbers('t', 2);
    if (!view || view[1] <= view[0]) return;
    const [event] = numbers('event', 1) ?? [];
    const gap = numbers('gap', 3);
    const span = numbers('span', 3);
    this.show(view[0], view[1], {
      event: place.has('event') ? event : undefined,
      gap: gap && { rank: gap[0], device: gap[1], start: gap[2] },
      span: span && { rank: span[0], start: span[1], end: span[2] },
    }, asked);
    const text = place.get('q');
    const name = place.get('name');
    if (name) this.searchFor({ text: name, exact: true });
    else this.search(text ?? '');
    for (const view of [...this.layout_.pinned]) this.layout_.pin(view.model);   // lets it go
    for (const at of (place.get('pin') ?? '').split('_')) {
      const track = at === '' ? undefined : this.model_.tracks[Number(at)];
      if (track && !this.layout_.pinned.some((view) => view.model === track)) this.layout_.pin(track);
    }
    this.folded();
  }

  search(text: string): void {
    this.toolbar_.setText(text);
    this.searchFor({ text, exact: false });
  }

  // Drawing

  private draw(): void {
    if (this.frame_ === 0) this.frame_ = requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    this.frame_ = 0;
    if (this.viewport_.width < 2) return;
    this.followRows();
    this.limitScroll();
    this.layout_.placePinned(this.scroll_);
    const { ratio_: ratio, height_: height, scroll_: scroll } = this;
    this.painter_.draw(height, scroll, ratio);
    drawAxis(this.view_.axis_canvas, this.viewport_, this.painter_.palette, ratio);
    this.minimap_.draw(ratio);
    this.titles_.draw(height, scroll);
    this.view_.span_text.textContent = `${duration(this.viewport_.span)} in view`;
    this.settled_.soon();
    this.hover();
  }

  /** Rows of a track are known for sure only once it is prepared. */
  private followRows(): void {
    const rows = this.model_.event_tracks.reduce((sum, track) => sum + track.row_count, 0);
    if (rows !== this.rows_known_) this.layout_.update();
    this.rows_known_ = rows;
  }

  private limitScroll(): void {
    const { scroller, spacer } = this.view_;
    const most = Math.max(0, this.layout_.height - this.height_);
    this.scroll_ = Math.min(Math.max(0, this.scroll_), most);
    const height = `${this.layout_.height}px`;
    if (spacer.style.height !== height) spacer.style.height = height;
    if (Math.abs(scroller.scrollTop - this.scroll_) >= 1) scroller.scrollTop = this.scroll_;
  }

  private refined(): void {
    this.minimap_.invalidate();
    this.draw();
    if (!this.detail_.finished) return;
    this.root_.dataset.detail = 'finished';
    // The legend names what the tracks turned out to hold.
    if (!this.selection_.empty) return;
    const focused = this.view_.panel.contains(document.activeElement);
    this.panel_.show();
    if (focused) this.panel_.focus();
  }

  private resize(): void {
    const { plot, plot_canvas, overlay_canvas, axis_canvas, minimap_canvas } = this.view_;
    this.ratio_ = window.devicePixelRatio || 1;
    this.height_ = plot.clientHeight;
    this.viewport_.width = Math.max(1, plot.clientWidth);
    const fit = (canvas: HTMLCanvasElement, height: number) => {
      const width = Math.round(this.viewport_.width * this.ratio_);
      const rows = Math.max(1, Math.round(height * this.ratio_));
      if (canvas.width !== width) canvas.width = width;
      if (canvas.height !== rows) canvas.height = rows;
      canvas.style.width = `${this.viewport_.width}px`;
      canvas.style.height = `${height}px`;
    };
    fit(plot_canvas, this.height_);
    fit(overlay_canvas, this.height_);
    fit(axis_canvas, kAxis);
    fit(minimap_canvas, kMinimap);
    this.minimap_.invalidate();
    // A cleared canvas must not be seen empty.
    cancelAnimationFrame(this.frame_);
    this.paint();
  }

  private recolour(): void {
    const palette = paletteOf(this.root_, this.model_.data.categories, isDark());
    this.painter_.palette = this.overlay_.palette = this.minimap_.palette = this.panel_.palette = palette;
    this.minimap_.invalidate();
    this.panel_.show();
    this.draw();
  }

  private tracksInView(): TrackEvents[] {
    const { scroll_: scroll, height_: height } = this;
    const models: TrackEvents[] = [];
    for (const line of this.layout_.within(scroll, scroll + height)) {
      for (const view of isHeading(line) ? (line.collapsed ? line.bands : []) : [line]) {
        if (view.model instanceof TrackEvents) models.push(view.model);
      }
    }
    return models;
  }

  // Pointer

  private pointerActions() {
    return {
      hover: (x: number, y: number) => {
        this.pointer_ = { x, y };
        this.hover();
      },
      leave: () => {
        this.pointer_ = undefined;
        this.hover();
      },
      pan: (dx: number, dy: number) => {
        this.viewport_.pan(dx);
        this.scroll_ += dy;
        this.draw();
      },
      zoom: (factor: number, x: number) => {
        this.viewport_.zoom(factor, x);
        this.draw();
      },
      measure: (from_x: number, from_y: number, to_x: number, done: boolean) =>
        this.measure(from_x, from_y, to_x, done),
      pick: (x: number, y: number) => this.pick(x, y),
      fit: (x: number, y: number) => {
        this.pick(x, y);
        if (this.selection_.event) this.fit();
      },
    };
  }

  private hover(): void {
    const {
      pointer_: pointer,
      view_: { plot },
    } = this;
    this.hit_ = pointer && hitTest(this.layout_, this.viewport_, pointer.x, pointer.y + this.scroll_);
    this.overlay_.draw(this.height_, this.scroll_, this.ratio_, this.hit_, pointer?.x);
    plot.style.cursor = this.hit_?.event ? 'pointer' : '';
    const lines = this.hit_ ? describeHit(this.model_, this.hit_) : [];
    if (!pointer || lines.length === 0) {
      hideTip();
      return;
    }
    const box = plot.getBoundingClientRect();
    const values = this.hit_?.event ? this.countersInView(this.hit_.time) : [];
    showTip(box.left + pointer.x, box.top + pointer.y, [...lines, ...values]);
  }

  /** What the counters in view say at a time. */
  private countersInView(time: number): string[] {
    return this.layout_.lines
      .filter((line) => line.y + line.height > this.scroll_ && line.y < this.scroll_ + this.height_)
      .flatMap((line) => (!isHeading(line) && line.model instanceof Counter ? [counterText(line.model, time)] : []))
      .slice(0, 4);
  }

  private pick(x: number, y: number): void {
    const hit = hitTest(this.layout_, this.viewport_, x, y + this.scroll_);
    if (hit?.event) this.select(hit.event, false);
    else if (hit && isHeading(hit.spot.line)) this.fold(hit.spot.line);
    else this.clearSelection();
  }

  private fold(heading: { collapsed: boolean }): void {
    heading.collapsed = !heading.collapsed;
    this.folded();
  }

  private folded(): void {
    this.layout_.update();
    this.draw();
    this.detail_.start(() => this.tracksInView());
  }

  private measure(from_x: number, from_y: number, to_x: number, done: boolean): void {
    const [start, end] = [from_x, to_x].map((x) => this.viewport_.time(x)).sort((a, b) => a - b);
    const line = this.layout_.at(from_y + this.scroll_)?.line;
    const on = line && !isHeading(line) && line.model instanceof TrackEvents ? line.model : undefined;
    this.selection_.event = this.selection_.gap = undefined;
    this.toolbar_.showGap('');
    this.selection_.span = { start, end, rank: line?.rank ?? this.rank_, on };
    if (done) {
      this.panel_.show();
      this.say(`Measured ${duration(end - start, 4)}`);
    }
    this.draw();
  }

  private wheelOverTitles(event: WheelEvent): void {
    event.preventDefault();
    this.scroll_ += event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 20 : 1);
    this.draw();
  }

  // Selection

  private select(place: EventPlace, move: boolean): void {
    this.selection_.choose(place);
    this.toolbar_.showGap('');
    if (move) this.bringIntoView(place.track.start[place.at], place.track.end(place.at));
    this.reveal(place.track, place.track.depthOf(place.at));
    this.panel_.show();
    this.toolbar_.showMatches(this.search_, this.matchPosition());
    const { track, at } = place;
    const kind = categoryTitle(track.categoryId(at));
    const what = `${shown(this.model_.label(place), 120)}, ${duration(track.duration[at])}, ${kind}`;
    this.say(`Selected ${what}, on ${trackTitle(this.model_, track)}`);
    this.draw();
  }

  private go(place: EventPlace): void {
    this.select(place, true);
  }

  private bringIntoView(start: number, end: number): void {
    const { viewport_: viewport } = this;
    const width = end - start;
    if (width > viewport.span) viewport.fit(start, end);
    else if (start < viewport.start || end > viewport.end)
      viewport.set(start - (viewport.span - width) / 2, end + (viewport.span - width) / 2);
  }

  private reveal(track: TrackEvents, row: number): void {
    this.layout_.reveal(track, row);
    const { y, height } = this.layout_.rowBox(track, row);
    if (y < this.scroll_ + this.layout_.pinned_height) this.scroll_ = y - 2 * height - this.layout_.pinned_height;
    else if (y + height > this.scroll_ + this.height_) this.scroll_ = y - this.height_ / 2;
  }

  private selectGap(chosen: ChosenGap, at: number, move: boolean): void {
    const { gap, rank } = chosen;
    this.selection_.chooseGap(chosen);
    if (move) this.viewport_.fit(gap.start, gap.start + gap.duration, 0.6);
    const idles = this.model_.event_tracks.filter((track) => track.kind === 'idle' && track.rank === rank);
    const idle = idles.find((track) => isOfDevice(track, gap.device)) ?? idles[0];
    if (idle) this.reveal(idle, 0);
    this.panel_.show();
    const place = `${at + 1} of ${this.jumps_.gaps.length}`;
    this.toolbar_.showGap(place);
    this.say(`Gap ${place}: ${duration(gap.duration)}, ${categoryTitle(`idle:${gap.cause}`)}`);
    this.draw();
  }

  private clearSelection(): void {
    this.selection_.clear();
    this.panel_.asked = undefined;
    this.panel_.show();
    this.toolbar_.showGap('');
    this.toolbar_.showMatches(this.search_, undefined);
    this.draw();
  }

  private fit(): void {
    const stretch = this.selection_.stretch;
    if (stretch) this.viewport_.fit(...stretch);
    this.draw();
  }

  private say(text: string): void {
    this.view_.status.textContent = text;
  }

  // Search

  private searchFor(query: { text: string; exact: boolean }): void {
    const { query: current } = this.search_;
    if (current && current.text === query.text && current.exact === query.exact) return;
    // A name that was asked for exactly stays so while its text stands in the field.
    if (query.exact) this.toolbar_.setText(query.text);
    else if (current?.exact && current.text === query.text) return;
    this.search_.run(query);
  }

  private searched(): void {
    this.jumps_.searched();
    this.toolbar_.showMatches(this.search_, this.matchPosition());
    this.draw();
  }

  private matchPosition(): number | undefined {
    const place = this.selection_.event?.place;
    return place && this.search_.active && this.search_.matches(place.track, place.at)
      ? this.search_.position(place)
      : undefined;
  }

  // Keys and buttons

  private measureSelected(): void {
    const { viewport_: viewport, selection_: selection } = this;
    const [start, end] = selection.stretch ?? [Math.max(0, viewport.start), Math.min(viewport.span_ns, viewport.end)];
    const place = selection.event?.place;
    const rank = place?.track.rank ?? selection.gap?.rank ?? this.rank_;
    selection.clear();
    selection.span = { start, end, rank, on: place?.track };
    this.toolbar_.showGap('');
    this.panel_.show();
    this.say(`Measured ${duration(end - start, 4)}`);
    this.draw();
  }

  private zoomAt(factor: number): void {
    this.viewport_.zoom(factor, this.pointer_?.x ?? this.viewport_.width / 2);
    this.draw();
  }

  private toolbarActions() {
    return {
      search: (text: string) =>
        this.searchFor({ text, exact: this.search_.query?.exact === true && this.search_.query.text === text }),
      match: (backward: boolean) => this.jumps_.match(backward),
      gap: (by: number) => this.jumps_.gap(by),
      step: (by: number) => this.jumps_.step(by),
      zoom: (factor: number) => {
        this.viewport_.zoom(factor, this.viewport_.width / 2);
        this.draw();
      },
      whole: () => this.whole(),
      fit: () => this.fit(),
      measure: () => this.measureSelected(),
      panel: () => this.togglePanel(),
      keys: showTimelineKeys,
      leave: () => this.view_.plot.focus({ preventScroll: true }),
    };
  }

  private togglePanel(): void {
    this.view_.panel.hidden = !this.view_.panel.hidden;
  }

  private whole(): void {
    this.viewport_.whole();
    this.draw();
  }

  private keyActions() {
    return {
      zoom: (factor: number) => this.zoomAt(factor),
      pan: (share: number, rows: number) => {
        this.viewport_.pan(share * this.viewport_.width);
        this.scroll_ += rows * 40;
        this.draw();
      },
      page: (by: number) => {
        this.scroll_ += by * this.height_ * 0.9;
        this.draw();
      },
      whole: () => this.whole(),
      fit: () => this.fit(),
      step: (by: number) => this.jumps_.step(by),
      gap: (by: number) => this.jumps_.gap(by),
      search: () => this.toolbar_.focus(),
      match: (backward: boolean) => this.jumps_.match(backward),
      middle: () => this.jumps_.toMiddle(),
      neighbour: (forward: boolean) => this.jumps_.beside((place) => beside(place, forward)),
      stack: (inner: boolean) => this.jumps_.beside((place) => stacked(place, inner)),
      measure: () => this.measureSelected(),
      escape: () => {
        if (!this.selection_.empty) this.clearSelection();
        else this.search('');
      },
      panel: () => this.togglePanel(),
      keys: showTimelineKeys,
    };
  }
}
