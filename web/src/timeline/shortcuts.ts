// The keys of `keys.ts`. They work while the timeline is on the screen and nothing else has the focus.

export interface KeyActions {
  zoom(factor: number): void;
  /** A share of the view's width, and rows down. */
  pan(share: number, rows: number): void;
  page(by: number): void;
  whole(): void;
  fit(): void;
  step(by: number): void;
  gap(by: number): void;
  search(): void;
  match(backward: boolean): void;
  middle(): void;
  neighbour(forward: boolean): void;
  stack(inner: boolean): void;
  measure(): void;
  panel(): void;
  escape(): void;
  keys(): void;
}

const kZoom = 1.25;
const kPan = 0.08;

export class Shortcuts {
  private readonly plain_: Record<string, () => void>;
  private readonly shifted_: Record<string, () => void>;
  /** Only with the focus inside: the page has them too. */
  private readonly inside_: Record<string, () => void>;

  constructor(
    private readonly root_: HTMLElement,
    private readonly plot_: HTMLElement,
    actions: KeyActions,
  ) {
    this.plain_ = {
      'w': () => actions.zoom(1 / kZoom),
      's': () => actions.zoom(kZoom),
      '+': () => actions.zoom(1 / kZoom),
      '-': () => actions.zoom(kZoom),
      'a': () => actions.pan(-kPan, 0),
      'd': () => actions.pan(kPan, 0),
      'home': actions.whole,
      'f': actions.fit,
      '[': () => actions.step(-1),
      ']': () => actions.step(1),
      'g': () => actions.gap(1),
      'n': () => actions.match(false),
      '/': actions.search,
      'm': actions.measure,
      'p': actions.panel,
      'escape': actions.escape,
    };
    this.shifted_ = {
      'g': () => actions.gap(-1),
      'n': () => actions.match(true),
      '/': actions.search,
      '[': () => actions.step(-1),
      ']': () => actions.step(1),
      '+': () => actions.zoom(1 / kZoom),
      'arrowleft': () => actions.neighbour(false),
      'arrowright': () => actions.neighbour(true),
      'arrowup': () => actions.stack(false),
      'arrowdown': () => actions.stack(true),
    };
    this.inside_ = {
      '0': actions.whole,
      '?': actions.keys,
      'arrowleft': () => actions.pan(-kPan, 0),
      'arrowright': () => actions.pan(kPan, 0),
      'arrowup': () => actions.pan(0, -1),
      'arrowdown': () => actions.pan(0, 1),
      'pageup': () => actions.page(-1),
      'pagedown': () => actions.page(1),
      'enter': actions.middle,
    };
    this.search_ = actions.search;
    // Before the page's own keys, which leave alone what was handled.
    window.addEventListener('keydown', this.listener_, true);
  }

  readonly dispose = (): void => window.removeEventListener('keydown', this.listener_, true);

  private readonly search_: () => void;

  private readonly listener_ = (event: KeyboardEvent): void => {
    const target = event.target instanceof HTMLElement ? event.target : document.body;
    const inside = this.root_.contains(target);
    // The key that opens the timeline leaves the focus on its tab.
    const free = target === document.body || target.closest('.tabs') !== null;
    if ((!inside && !free) || !this.onScreen() || document.querySelector('dialog[open]')) return;
    if (target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
    const action = this.actionFor(event, inside, target);
    if (!action) return;
    event.preventDefault();
    action();
  };

  private actionFor(event: KeyboardEvent, inside: boolean, target: HTMLElement): (() => void) | undefined {
    const key = event.key.toLowerCase();
    if (event.altKey) return undefined;
    if (event.ctrlKey || event.metaKey) return inside && key === 'f' && !event.shiftKey ? this.search_ : undefined;
    // Enter belongs to a button that has the focus.
    if (key === 'enter' && target !== this.plot_) return undefined;
    return (event.shiftKey ? this.shifted_[key] : this.plain_[key]) ?? (inside ? this.inside_[key] : undefined);
  }

  private onScreen(): boolean {
    return this.root_.offsetParent !== null;
  }
}
