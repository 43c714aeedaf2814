// Wheel, mouse and touch over the plot, as what they mean. Coordinates are CSS pixels from the plot's corner.

export interface PointerActions {
  hover(x: number, y: number): void;
  leave(): void;
  pan(dx: number, dy: number): void;
  zoom(factor: number, x: number): void;
  /** `done` once the pointer is up. */
  measure(from_x: number, from_y: number, to_x: number, done: boolean): void;
  pick(x: number, y: number): void;
  fit(x: number, y: number): void;
}

/** A pointer that moves less picks, more drags. */
const kClick_px = 4;
const kLine_px = 20;

interface Finger {
  x: number;
  y: number;
}

export class Pointer {
  private readonly fingers_ = new Map<number, Finger>();
  private from_: Finger | undefined;
  private dragged_ = false;
  private measuring_ = false;

  constructor(
    private readonly plot_: HTMLElement,
    private readonly actions_: PointerActions,
  ) {
    plot_.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    plot_.addEventListener('pointerdown', (event) => this.down(event));
    plot_.addEventListener('pointermove', (event) => this.move(event));
    plot_.addEventListener('pointerup', (event) => this.up(event));
    plot_.addEventListener('pointercancel', (event) => this.cancel(event));
    plot_.addEventListener('pointerleave', () => actions_.leave());
    plot_.addEventListener('dblclick', (event) => {
      const { x, y } = this.at(event);
      actions_.fit(x, y);
    });
  }

  private at(event: MouseEvent): Finger {
    const box = this.plot_.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const unit =
      event.deltaMode === WheelEvent.DOM_DELTA_LINE
        ? kLine_px
        : event.deltaMode === WheelEvent.DOM_DELTA_PAGE
          ? 400
          : 1;
    const dx = event.deltaX * unit;
    const dy = event.deltaY * unit;
    if (event.shiftKey) this.actions_.pan(dx || dy, 0);
    else if (event.altKey) this.actions_.pan(0, dy);
    else if (Math.abs(dx) > Math.abs(dy)) this.actions_.pan(dx, 0);
    // A pinch on a touchpad arrives as small steps with ctrl.
    else this.actions_.zoom(Math.exp(Math.max(-1, Math.min(1, dy * (event.ctrlKey ? 0.01 : 0.002)))), this.at(event).x);
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0 && event.button !== 1) return;
    event.preventDefault();
    this.plot_.focus({ preventScroll: true });
    this.plot_.setPointerCapture(event.pointerId);
    this.fingers_.set(event.pointerId, this.at(event));
    this.from_ = this.at(event);
    this.dragged_ = this.fingers_.size > 1;
    // A finger has no other way to pan.
    this.measuring_ = event.pointerType !== 'touch' && event.button === 0 && !event.shiftKey;
  }

  private move(event: PointerEvent): void {
    const now = this.at(event);
    const before = this.fingers_.get(event.pointerId);
    if (!before || !this.from_) {
      this.actions_.hover(now.x, now.y);
      return;
    }
    if (!this.dragged_ && Math.hypot(now.x - this.from_.x, now.y - this.from_.y) < kClick_px) return;
    this.dragged_ = true;
    const other = [...this.fingers_].find(([id]) => id !== event.pointerId)?.[1];
    if (other) this.pinch(before, now, other);
    else if (this.measuring_) this.actions_.measure(this.from_.x, this.from_.y, now.x, false);
    else this.actions_.pan(before.x - now.x, before.y - now.y);
    this.fingers_.set(event.pointerId, now);
  }

  private pinch(before: Finger, now: Finger, other: Finger): void {
    const width = (finger: Finger) => Math.max(10, Math.hypot(finger.x - other.x, finger.y - other.y));
    this.actions_.zoom(width(before) / width(now), (now.x + other.x) / 2);
    this.actions_.pan((before.x - now.x) / 2, (before.y - now.y) / 2);
  }

  private up(event: PointerEvent): void {
    const from = this.from_;
    if (!this.fingers_.delete(event.pointerId) || !from) return;
    const now = this.at(event);
    if (this.measuring_ && this.dragged_) this.actions_.measure(from.x, from.y, now.x, true);
    else if (!this.dragged_) this.actions_.pick(now.x, now.y);
    if (this.fingers_.size === 0) this.from_ = undefined;
  }

  private cancel(event: PointerEvent): void {
    this.fingers_.delete(event.pointerId);
    if (this.fingers_.size === 0) this.from_ = undefined;
  }
}
