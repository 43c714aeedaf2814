// Operators or kernels below the device's limits: rate over intensity, both logarithmic; area by time.

import { categoryOfBound } from './roofline_rows';
import { colourOf } from './colours';
import { element, shown } from './dom';
import { drawing } from './drawing';
import { count, counted, duration, number, percent } from './quantity';
import { colour } from './theme';
import { hideTip, showTip } from './tooltip';
import { words, type Limits, type RooflineRow } from './report';

const kHeight = 400;
const kLeft = 62;
const kRight = 14;
const kTop = 14;
const kBottom = 40;
const kLargest = 24;   // radius in pixels of what takes all of the time
const kLeast = 3.5;
const kNear = 5;       // pixels that a pointer may miss a point by

export interface Point {
  row: RooflineRow;
  intensity: number;
  tflops: number;
}

function pointsOf(rows: RooflineRow[]): Point[] {
  return rows.flatMap((row) => (row.intensity && row.tflops && row.intensity > 0 && row.tflops > 0
    ? [{ row, intensity: row.intensity, tflops: row.tflops }] : []));
}

/** Precisions of one rate together, highest first: "BF16, FP16 989 TFLOP/s". */
export function ceilings(limits: Limits | null | undefined): { tflops: number; precisions: string[] }[] {
  const by_rate = new Map<number, string[]>();
  for (const { precision, tflops } of limits?.peaks ?? []) by_rate.set(tflops, [...(by_rate.get(tflops) ?? []), precision]);
  return [...by_rate].map(([tflops, precisions]) => ({ tflops, precisions })).sort((a, b) => b.tflops - a.tflops);
}

export function nameOf({ name, shapes }: RooflineRow): string {
  return shapes ? `${name} ${shapes}` : name;
}

interface Scale {
  x: [number, number];
  y: [number, number];
}

export class RooflinePlot {
  readonly root = element('div', { class: 'chart roofplot' });
  private readonly drawing_;
  private readonly said_ = element('p', { class: 'quiet', role: 'status' });
  private scale_: Scale = { x: [0, 1], y: [0, 1] };
  private points_: Point[] = [];
  private whole_ns_ = 1;
  private chosen_ = -1;
  private width_ = 0;

  constructor(private readonly limits_: Limits | null | undefined, private readonly name_: (row: RooflineRow) => string,
              private readonly open_: (row: RooflineRow) => void) {
    this.drawing_ = drawing('Roofline: rate over intensity of operators or kernels; the table below has the numbers', kHeight, (p, w, h) => this.draw(p, w, h));
    const { canvas } = this.drawing_;
    canvas.tabIndex = 0;
    canvas.setAttribute('role', 'application');
    canvas.addEventListener('pointermove', (event) => {
      const at = this.at(event);
      canvas.style.cursor = at >= 0 ? 'pointer' : '';
      this.choose(at, event.clientX, event.clientY);
    });
    canvas.addEventListener('pointerleave', () => this.choose(-1));
    canvas.addEventListener('click', (event) => {
      const at = this.at(event);
      if (at >= 0) this.open_(this.points_[at]!.row);
    });
    canvas.addEventListener('keydown', (event) => this.key(event));
    canvas.addEventListener('blur', hideTip);
    this.root.append(canvas, this.said_);
  }

  /** By intensity, as the keys walk them; large ones are drawn first, so that small ones stay on top. */
  show(rows: RooflineRow[]): void {
    this.points_ = pointsOf(rows).sort((a, b) => a.intensity - b.intensity);
    this.whole_ns_ = Math.max(1, rows.reduce((sum, row) => sum + row.total_ns, 0));
    this.scale_ = this.scaleOfAll();
    this.chosen_ = -1;
    const apart = rows.filter((row) => !row.intensity && row.total_ns > 0);
    const ns = apart.reduce((sum, row) => sum + row.total_ns, 0);
    this.said_.textContent = apart.length === 0 ? ''
      : `${count(apart.length)} more, ${percent((100 * ns) / this.whole_ns_)} of the time, only move data or are of unknown work; the table has them.`;
    this.drawing_.refresh();
  }

  mark(row: RooflineRow): void {
    this.chosen_ = this.points_.findIndex((point) => point.row === row);
    this.drawing_.refresh();
  }

  /** Where a point stands in the plot. */
  place(index: number): { x: number; y: number } {
    const scale = this.scale_;
    const { intensity, tflops } = this.points_[index]!;
    return { x: this.x(scale, intensity), y: this.y(scale, tflops) };
  }

  dispose(): void {
    this.drawing_.dispose();
    hideTip();
  }

  private radius({ row }: Point): number {
    return Math.max(kLeast, kLargest * Math.sqrt(row.total_ns / this.whole_ns_));
  }

  // Powers of ten around all points, the ridge of the highest ceiling and that ceiling.
  private scaleOfAll(): Scale {
    const peaks = ceilings(this.limits_).map(({ tflops }) => tflops);
    const ridges = this.limits_?.memory_gbps ? peaks.map((peak) => (1000 * peak) / this.limits_!.memory_gbps!) : [];
    const xs = [...this.points_.map((p) => p.intensity), ...ridges];
    const ys = [...this.points_.map((p) => p.tflops), ...peaks];
    const around = (values: number[], below: number, above: number): [number, number] => {
      const logs = (values.length > 0 ? values : [1]).map((value) => Math.log10(value));
      const [from, to] = [Math.floor(Math.min(...logs) - below), Math.ceil(Math.max(...logs) + above)];
      return [Math.min(from, to - 2), to];
    };
    return { x: around(xs, 0.1, 0.2), y: around(ys, 0.1, 0.05) };
  }

  private x({ x: [from, to] }: Scale, intensity: number): number {
    return kLeft + ((Math.log10(intensity) - from) / (to - from)) * (this.width_ - kLeft - kRight);
  }

  private y({ y: [from, to] }: Scale, tflops: number): number {
    return kHeight - kBottom - ((Math.log10(tflops) - from) / (to - from)) * (kHeight - kTop - kBottom);
  }

  private at(event: MouseEvent): number {
    const box = this.drawing_.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let found = -1;
    let nearest = Infinity;
    this.points_.forEach((point, i) => {
      const place = this.place(i);
      const away = Math.hypot(x - place.x, y - place.y);
      const radius = this.radius(point);
      // Of points over each other the smaller one: the others are seen around it.
      if (away <= radius + kNear && radius + away < nearest) [nearest, found] = [radius + away, i];
    });
    return found;
  }

  private choose(at: number, x = 0, y = 0): void {
    if (at !== this.chosen_) this.drawing_.refresh();
    this.chosen_ = at;
    if (at < 0) return hideTip();
    showTip(x, y, this.lines(this.points_[at]!));
  }

  private lines({ row, intensity, tflops }: Point): string[] {
    return [
      shown(this.name_(row), 300), `${duration(row.total_ns)} in ${counted(row.count, 'call')}, ${percent((100 * row.total_ns) / this.whole_ns_)} of all`,
      `${number(tflops)} TFLOP/s at ${number(intensity)} FLOP/byte${row.precision ? `, ${row.precision.toUpperCase()}` : ''}`,
      row.limit_pct === null ? 'its limit is not known' : `${percent(row.limit_pct)} of its limit, bound by ${row.recomputed ? 'recomputation' : words(row.bound)}`,
    ];
  }

  private key(event: KeyboardEvent): void {
    const last = this.points_.length - 1;
    if (last < 0) return;
    const to: Record<string, number> = { ArrowRight: Math.min(last, this.chosen_ + 1), ArrowLeft: Math.max(0, this.chosen_ - 1), Home: 0, End: last };
    if (event.key === 'Enter' && this.chosen_ >= 0) {
      this.open_(this.points_[this.chosen_]!.row);
    } else if (to[event.key] !== undefined) {
      const at = to[event.key]!;
      const box = this.drawing_.canvas.getBoundingClientRect();
      const { x, y } = this.place(at);
      this.choose(at, box.left + x, box.top + y);
      this.said_.textContent = this.lines(this.points_[at]!).join('; ');
    } else if (event.key === 'Escape') {
      this.choose(-1);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private draw(painter: CanvasRenderingContext2D, width: number, height: number): void {
    this.width_ = width;
    const scale = this.scale_;
    painter.font = '11px system-ui, sans-serif';
    this.axes(painter, scale, width, height);
    painter.save();
    painter.beginPath();
    painter.rect(kLeft, 0, width - kLeft - kRight, height - kBottom);
    painter.clip();
    const labels = this.roofs(painter, scale, width);
    const order = this.points_.map((_, i) => i).sort((a, b) => this.points_[b]!.row.total_ns - this.points_[a]!.row.total_ns);
    for (const i of order) this.point(painter, i);
    for (const label of labels) label();
    painter.restore();
    if (this.points_.length > 0) return;
    painter.fillStyle = colour('quiet');
    painter.textAlign = 'center';
    painter.fillText('nothing here has both FLOPs and bytes that are known', (kLeft + width) / 2, height / 2);
  }

  private point(painter: CanvasRenderingContext2D, i: number): void {
    const point = this.points_[i]!;
    const { x, y } = this.place(i);
    painter.beginPath();
    painter.arc(x, y, this.radius(point), 0, 2 * Math.PI);
    painter.globalAlpha = 0.75;
    painter.fillStyle = colourOf(categoryOfBound(point.row));
    painter.fill();
    painter.globalAlpha = 1;
    painter.strokeStyle = i === this.chosen_ ? colour('text') : colour('back');
    painter.lineWidth = i === this.chosen_ ? 2.5 : 1;
    painter.stroke();
  }

  private axes(painter: CanvasRenderingContext2D, scale: Scale, width: number, height: number): void {
    const base = height - kBottom;
    painter.lineWidth = 1;
    painter.strokeStyle = colour('line');
    painter.fillStyle = colour('quiet');
    painter.textBaseline = 'middle';
    const line = (x0: number, y0: number, x1: number, y1: number) => {
      painter.beginPath();
      painter.moveTo(Math.round(x0) + 0.5, Math.round(y0) + 0.5);
      painter.lineTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
      painter.stroke();
    };
    painter.textAlign = 'center';
    const room = (width - kLeft) / Math.max(1, scale.x[1] - scale.x[0]);
    for (let power = scale.x[0]; power <= scale.x[1]; power++) {
      const x = this.x(scale, 10 ** power);
      line(x, kTop, x, base);
      if (room > 40 || (power - scale.x[0]) % 2 === 0) painter.fillText(powerText(power), Math.min(x, width - kRight - 6), base + 12);
    }
    painter.textAlign = 'right';
    for (let power = scale.y[0]; power <= scale.y[1]; power++) {
      const y = this.y(scale, 10 ** power);
      line(kLeft, y, width - kRight, y);
      painter.fillText(powerText(power), kLeft - 6, y);
    }
    painter.textAlign = 'center';
    painter.fillText('FLOP per byte', kLeft + (width - kLeft - kRight) / 2, height - 8);
    painter.save();
    painter.translate(11, kTop + (base - kTop) / 2);
    painter.rotate(-Math.PI / 2);
    painter.fillText('TFLOP/s', 0, 0);
    painter.restore();
  }

  // Returns what writes their names, which stand above the points.
  private roofs(painter: CanvasRenderingContext2D, scale: Scale, width: number): (() => void)[] {
    const labels: (() => void)[] = [];
    const gbps = this.limits_?.memory_gbps ?? null;
    const used = new Set(this.points_.map((point) => point.row.precision));
    const all = ceilings(this.limits_);
    const right = width - kRight;
    let label_y = -Infinity;
    for (const { tflops, precisions } of all) {
      const is_used = precisions.some((precision) => used.has(precision));
      const y = this.y(scale, tflops);
      const ridge = gbps === null ? kLeft : this.x(scale, (1000 * tflops) / gbps);
      painter.strokeStyle = is_used ? colour('text') : colour('edge');
      painter.lineWidth = is_used ? 2 : 1;
      painter.setLineDash(is_used ? [] : [4, 3]);
      painter.beginPath();
      painter.moveTo(ridge, y);
      painter.lineTo(right, y);
      painter.stroke();
      painter.setLineDash([]);
      const label = `${precisions.map((p) => p.toUpperCase()).join(', ')} ${number(tflops)}`;
      if (y - label_y < 13) continue;
      label_y = y;
      labels.push(() => {
        painter.textAlign = 'right';
        painter.textBaseline = 'bottom';
        ground(painter, label, right - 2, y - 2);
        painter.fillStyle = is_used ? colour('text') : colour('quiet');
        painter.fillText(label, right - 2, y - 2);
      });
    }
    if (gbps !== null) labels.push(this.slope(painter, scale, gbps, all[0]?.tflops ?? 10 ** scale.y[1]));
    return labels;
  }

  private slope(painter: CanvasRenderingContext2D, scale: Scale, gbps: number, highest: number): () => void {
    const from = 10 ** scale.x[0];
    const start = { x: this.x(scale, from), y: this.y(scale, (from * gbps) / 1000) };
    const end = { x: this.x(scale, (1000 * highest) / gbps), y: this.y(scale, highest) };
    painter.strokeStyle = colour('text');
    painter.lineWidth = 2;
    painter.beginPath();
    painter.moveTo(start.x, start.y);
    painter.lineTo(end.x, end.y);
    painter.stroke();
    // Along the part of the slope that is in the plot.
    const low = { x: start.y > kHeight - kBottom ? this.x(scale, (1000 * 10 ** scale.y[0]) / gbps) : start.x, y: Math.min(start.y, kHeight - kBottom) };
    const label = `memory ${number(gbps)} GB/s`;
    return () => {
      painter.save();
      painter.translate(low.x + 0.35 * (end.x - low.x), low.y + 0.35 * (end.y - low.y));
      painter.rotate(Math.atan2(end.y - low.y, end.x - low.x));
      painter.textAlign = 'center';
      painter.textBaseline = 'bottom';
      ground(painter, label, 0, -3);
      painter.fillStyle = colour('text');
      painter.fillText(label, 0, -3);
      painter.restore();
    };
  }
}

// Lines and points may run below text.
function ground(painter: CanvasRenderingContext2D, text: string, x: number, y: number): void {
  painter.lineJoin = 'round';
  painter.lineWidth = 4;
  painter.strokeStyle = colour('back');
  painter.strokeText(text, x, y);
}

const kRaised = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];

/** 0.01 to 1,000 as they are; else 10⁵. */
function powerText(power: number): string {
  if (power >= -3 && power <= 4) return power < 0 ? (10 ** power).toFixed(-power) : number(10 ** power);
  return `10${power < 0 ? '⁻' : ''}${[...String(Math.abs(power))].map((digit) => kRaised[Number(digit)]).join('')}`;
}
