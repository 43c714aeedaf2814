// What part of the time the plot shows. Pixels are CSS pixels here.

const kLeast_ns = 20;
/** Room beside the run, as a share of it, so that its ends can be told. */
const kRoom = 0.02;
/** How far beyond that the view may go, as a share of itself, so that what stands at an end can be moved inwards. */
const kBeyond = 0.15;

export class Viewport {
  start: number;
  end: number;
  width = 1;

  constructor(readonly span_ns: number) {
    this.start = 0;
    this.end = span_ns;
    this.whole();
  }

  get span(): number {
    return this.end - this.start;
  }
  get ns_per_px(): number {
    return this.span / this.width;
  }

  x(time: number): number {
    return (time - this.start) / this.ns_per_px;
  }

  time(x: number): number {
    return this.start + x * this.ns_per_px;
  }

  whole(): void {
    this.set(-kRoom * this.span_ns, (1 + kRoom) * this.span_ns);
  }

  /** Keeps the length asked for where it can, and something of the run in view. */
  set(start: number, end: number): void {
    if (!Number.isFinite(start) || !Number.isFinite(end)) return;
    const most = this.span_ns * (1 + 2 * kRoom);
    const span = Math.min(Math.max(end - start, kLeast_ns), most);
    const centre = (start + end) / 2;
    const first = -kRoom * this.span_ns - kBeyond * Math.min(span, this.span_ns);
    const last = (1 + kRoom) * this.span_ns + kBeyond * Math.min(span, this.span_ns);
    const at = span >= most ? -kRoom * this.span_ns : Math.min(Math.max(centre - span / 2, first), last - span);
    this.start = at;
    this.end = at + span;
  }

  pan(px: number): void {
    const by = px * this.ns_per_px;
    this.set(this.start + by, this.end + by);
  }

  /** `factor` below 1 zooms in; the time at `x` stays where it is. */
  zoom(factor: number, x: number): void {
    const most = this.span_ns * (1 + 2 * kRoom);
    const span = Math.min(Math.max(this.span * factor, kLeast_ns), most);
    const start = this.time(x) - (x / this.width) * span;
    this.set(start, start + span);
  }

  /** Shows a stretch with room beside it. */
  fit(start: number, end: number, room = 0.1): void {
    const margin = Math.max((end - start) * room, kLeast_ns / 2);
    this.set(start - margin, end + margin);
  }
}
