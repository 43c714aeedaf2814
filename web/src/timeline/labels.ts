// Names in boxes. Text is what costs most of a frame, so widths are remembered and nothing is written that would not be
// read.

import { shown } from '../views/dom';
import { TrackEvents, type Model } from './model';
import type { TrackView } from './layout';
import type { Palette } from './palette';
import type { Search } from './search';
import type { Box } from './strip';

export const kFont = '11px system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
const kPadding = 4;
const kMostLetters = 160;
/** A kernel that reduced clocks explain this much of, in permille, carries a mark. */
export const kSlowMark = 20;

interface Text {
  whole: string;
  width: number;
  /** By letters kept: width with the sign for what is left out. */
  cuts: number[];
}

/** Boxes of one row; heights in CSS pixels. */
export interface LabelledRow {
  view: TrackView;
  y: number;
  height: number;
  boxes: Box[];
}

export class Labels {
  private readonly texts_ = new Map<number, Text>();

  constructor(private readonly model_: Model) {}

  draw(context: CanvasRenderingContext2D, row: LabelledRow, palette: Palette, search: Search, ratio: number): void {
    const track = row.view.model as TrackEvents;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = kFont;
    context.textBaseline = 'middle';
    const middle = row.y + row.height / 2 + 0.5;
    const right = context.canvas.width / ratio;
    const { names, slow } = track;
    let ink = '';
    for (const { at, from, to } of row.boxes) {
      const x0 = Math.max(0, from / ratio);
      const room = Math.min(right, to / ratio) - x0 - 2 * kPadding;
      const wanted =
        (search.active && !search.matches(track, at) ? palette.dimmed_ink : palette.ink)[track.category[at]] ?? palette.fg;
      if (wanted !== ink) context.fillStyle = ink = wanted;
      if (slow[at] >= kSlowMark) mark(context, Math.min(right, to / ratio), row.y);
      if (room < 12) continue;
      const text = this.fitted(context, track, names[at], at, room);
      if (text) context.fillText(text, x0 + kPadding, middle);
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
  }

  private fitted(
    context: CanvasRenderingContext2D,
    track: TrackEvents,
    name: number,
    at: number,
    room: number,
  ): string {
    let text = this.texts_.get(name);
    if (!text) {
      const whole = shown(this.model_.label({ track, at }), kMostLetters);
      this.texts_.set(name, (text = { whole, width: context.measureText(whole).width, cuts: [] }));
    }
    if (text.width <= room) return text.whole;
    // Letters of a name differ little in width on average: that guess is seldom far off.
    let letters = Math.min(Math.ceil((text.whole.length * room) / text.width), text.whole.length - 1);
    while (letters >= 2 && this.cutWidth(context, text, letters) > room) letters--;
    return letters < 2 ? '' : `${text.whole.slice(0, letters)}…`;
  }

  private cutWidth(context: CanvasRenderingContext2D, text: Text, letters: number): number {
    return (text.cuts[letters] ??= context.measureText(`${text.whole.slice(0, letters)}…`).width);
  }
}

/** A corner of the box, in the ink of its text. */
function mark(context: CanvasRenderingContext2D, x: number, y: number): void {
  context.beginPath();
  context.moveTo(x - 8, y);
  context.lineTo(x, y);
  context.lineTo(x, y + 8);
  context.fill();
}
