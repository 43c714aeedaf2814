// Colours of categories, for a canvas and for elements.

import { categoryColour } from '../categories';
import { inkOn, rgbOf } from '../contrast';
import { isDark, onTheme } from './theme';

const used = new Map<string, string>();

/** For a canvas: the colour as it is now. */
export function colourOf(category: string): string {
  return categoryColour(category, isDark());
}

function define({ style }: HTMLElement, name: string, colour: string): void {
  style.setProperty(name, colour);
  style.setProperty(`${name}-ink`, inkOn(rgbOf(colour)));
}

function nameOf(category: string): string {
  let name = used.get(category);
  if (!name) {
    used.set(category, (name = `--category-${category.replace(/[^a-z_]/g, '-')}`));
    define(document.documentElement, name, colourOf(category));
  }
  return name;
}

/** For elements: follows the theme. */
export function cssColour(category: string): string {
  return `var(${nameOf(category)})`;
}

/** For text on that colour. */
export function cssInk(category: string): string {
  return `var(${nameOf(category)}-ink)`;
}

/** As on paper, whatever the theme is: all that stands in `root` by now. */
export function inLight(root: HTMLElement): void {
  for (const [category, name] of used) define(root, name, categoryColour(category, false));
}

onTheme(() => {
  for (const [category, name] of used) define(document.documentElement, name, colourOf(category));
});
