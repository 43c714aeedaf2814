// Contrast of colours, as WCAG 2 defines it.

export type Rgb = [number, number, number];

/** What text needs against what is behind it. */
export const kReadable = 4.5;

/** Of "#rrggbb". */
export function rgbOf(hex: string): Rgb {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as Rgb;
}

export function hexOf(rgb: Rgb): string {
  return `#${rgb.map((channel) => Math.round(channel).toString(16).padStart(2, '0')).join('')}`;
}

/** A pixel as an ImageData of a little-endian machine has it. */
export function pixelOf([r, g, b]: Rgb): number {
  return ((255 << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r)) >>> 0;
}

export function mix(a: Rgb, b: Rgb, share: number): Rgb {
  return [a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share, a[2] + (b[2] - a[2]) * share];
}

/** 0 for black, 1 for white. */
export function luminance(rgb: Rgb): number {
  const [r, g, b] = rgb.map((channel) => {
    const x = channel / 255;
    return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  }) as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(a: Rgb, b: Rgb): number {
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

/** Black or white: against any colour one of them has a contrast over 4.5. */
export function inkOn(behind: Rgb): string {
  return contrast(behind, [0, 0, 0]) >= contrast(behind, [255, 255, 255]) ? '#000000' : '#ffffff';
}

/** A quiet colour where it can be read. */
export function quietInkOn(behind: Rgb, quiet: Rgb): string {
  return contrast(behind, quiet) >= kReadable ? hexOf(quiet) : inkOn(behind);
}
