// Colours of the plot: those of the page's styles, and of every category a shade for each share of a pixel that is
// busy.

import { categoryColour } from '../categories';

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
  /** category · 256 + share → a pixel as an ImageData of a little-endian machine has it. */
  shades: Uint32Array;
  /** The same for what a search does not match. */
  dimmed: Uint32Array;
  /** By category: where a box begins. */
  edges: Uint32Array;
  dimmed_edges: Uint32Array;
}

type Rgb = [number, number, number];

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
  const dark = luminance(bg) < 0.4;
  const colours = categories.map((id) => categoryColour(id, dark, styles));
  return { ...base, colours, ...shadesOf(bg, colours.map(parse)) };
}

function shadesOf(bg: Rgb, colours: Rgb[]): Pick<Palette, 'ink' | 'shades' | 'dimmed' | 'edges' | 'dimmed_edges'> {
  const shades = new Uint32Array(256 * 256);
  const dimmed = new Uint32Array(256 * 256);
  const grey: Rgb = [128, 128, 128];
  const edges = new Uint32Array(256);
  const dimmed_edges = new Uint32Array(256);
  for (let category = 0; category < 256; category++) {
    const colour = colours[category] ?? grey;
    const faint = mix(mix(bg, grey, 0.25), mix(bg, colour, 0.4), 0.5);
    for (let share = 0; share < 256; share++) {
      shades[category * 256 + share] = pixel(mix(bg, colour, 0.1 + (0.9 * share) / 255));
      dimmed[category * 256 + share] = pixel(mix(bg, faint, 0.1 + (0.9 * share) / 255));
    }
    edges[category] = pixel(mix(colour, luminance(bg) < 0.4 ? bg : [0, 0, 0], 0.35));
    dimmed_edges[category] = pixel(bg);
  }
  const ink = colours.map((colour) => (luminance(colour) > 0.36 ? '#14171a' : '#ffffff'));
  return { ink, shades, dimmed, edges, dimmed_edges };
}

function mix(a: Rgb, b: Rgb, share: number): Rgb {
  return [a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share, a[2] + (b[2] - a[2]) * share];
}

function pixel([r, g, b]: Rgb): number {
  return ((255 << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r)) >>> 0;
}

/** Perceived lightness, 0..1 (Rec. 709 weights on gamma-coded values: near enough for black or white). */
function luminance([r, g, b]: Rgb): number {
  return (0.2126 * r ** 2 + 0.7152 * g ** 2 + 0.0722 * b ** 2) / 255 ** 2;
}

// A canvas knows every way of writing a colour, and answers with one of two.
function colourParser(): (text: string) => Rgb {
  const context = document.createElement('canvas').getContext('2d')!;
  return (text) => {
    context.fillStyle = '#808080';
    context.fillStyle = text;
    const said = context.fillStyle;
    if (said.startsWith('#')) return [1, 3, 5].map((at) => parseInt(said.slice(at, at + 2), 16)) as Rgb;
    const [r, g, b] = (said.match(/[\d.]+/g) ?? []).map(Number);
    return [r ?? 128, g ?? 128, b ?? 128];
  };
}
