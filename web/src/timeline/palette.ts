// Colours of the plot: those of the page's styles, and of every category a shade for each share of a pixel that is
// busy.

import { categoryColour } from '../categories';
import { inkOn, luminance, mix, pixelOf, quietInkOn, rgbOf, type Rgb } from '../contrast';

export interface Palette {
  bg: string;
  fg: string;
  muted: string;
  line: string;
  panel: string;
  accent: string;
  /** By category; opaque, as canvas text understands it. */
  colours: string[];
  /** By category: black or white, whichever reads better on it. */
  ink: string[];
  /** By category: on what a search does not match. */
  dimmed_ink: string[];
  /** category · 256 + share → a pixel as an ImageData of a little-endian machine has it. */
  shades: Uint32Array;
  /** The same for what a search does not match. */
  dimmed: Uint32Array;
  /** By category: where a box begins. */
  edges: Uint32Array;
  dimmed_edges: Uint32Array;
}

const kFallback = {
  light: { bg: '#ffffff', fg: '#1b1f24', muted: '#5c6670', line: '#dde1e6', panel: '#f5f6f8', accent: '#0b6bcb' },
  dark: { bg: '#15181c', fg: '#e6e9ec', muted: '#9aa4ae', line: '#2c3238', panel: '#1d2126', accent: '#58a6ff' },
};

export function paletteOf(element: Element, categories: string[], system_dark: boolean): Palette {
  const styles = getComputedStyle(element);
  const parse = colourParser();
  const own = system_dark ? kFallback.dark : kFallback.light;
  const of = (name: keyof typeof own) => styles.getPropertyValue(`--${name}`).trim() || own[name];
  const base = {
    bg: of('bg'),
    fg: of('fg'),
    muted: of('muted'),
    line: of('line'),
    panel: of('panel'),
    accent: of('accent'),
  };
  const bg = parse(base.bg);
  const dark = luminance(bg) < kDark;
  const colours = categories.map((id) => categoryColour(id, dark, styles));
  return { ...base, colours, ...shadesOf(bg, parse(base.muted), colours.map(parse)) };
}

const kGrey: Rgb = [128, 128, 128];
/** A darker ground asks for the dark theme's colours. */
const kDark = 0.18;

function faintOf(bg: Rgb, colour: Rgb): Rgb {
  return mix(mix(bg, kGrey, 0.25), mix(bg, colour, 0.4), 0.5).map(Math.round) as Rgb;
}

type Shades = Pick<Palette, 'ink' | 'dimmed_ink' | 'shades' | 'dimmed' | 'edges' | 'dimmed_edges'>;

/** Exported for its test. */
export function shadesOf(bg: Rgb, muted: Rgb, colours: Rgb[]): Shades {
  const shades = new Uint32Array(256 * 256);
  const dimmed = new Uint32Array(256 * 256);
  const edges = new Uint32Array(256);
  const dimmed_edges = new Uint32Array(256);
  for (let category = 0; category < 256; category++) {
    const colour = colours[category] ?? kGrey;
    const faint = faintOf(bg, colour);
    for (let share = 0; share < 256; share++) {
      shades[category * 256 + share] = pixelOf(mix(bg, colour, 0.1 + (0.9 * share) / 255));
      dimmed[category * 256 + share] = pixelOf(mix(bg, faint, 0.1 + (0.9 * share) / 255));
    }
    edges[category] = pixelOf(mix(colour, luminance(bg) < kDark ? bg : [0, 0, 0], 0.35));
    dimmed_edges[category] = pixelOf(bg);
  }
  const ink = colours.map(inkOn);
  const dimmed_ink = colours.map((colour) => quietInkOn(faintOf(bg, colour), muted));
  return { ink, dimmed_ink, shades, dimmed, edges, dimmed_edges };
}

// A canvas knows every way of writing a colour, and answers with one of two.
function colourParser(): (text: string) => Rgb {
  const context = document.createElement('canvas').getContext('2d')!;
  return (text) => {
    context.fillStyle = '#808080';
    context.fillStyle = text;
    const said = context.fillStyle;
    if (said.startsWith('#')) return rgbOf(said);
    const [r, g, b] = (said.match(/[\d.]+/g) ?? []).map(Number);
    return [r ?? 128, g ?? 128, b ?? 128];
  };
}
