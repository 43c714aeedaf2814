// Colours of categories, for a canvas and for elements.

import { categoryColour } from '../categories';
import { inkOn, rgbOf } from '../contrast';
import { isDark, onTheme } from './theme';

const used = new Map<string, string>();

/** For a canvas: the colour as it is now. */
export function colourOf(category: string): string {
  return categoryColour(category, isDark());
}

function define(category: string, name: string): void {
  const { style } = document.documentElement;
  style.setProperty(name, colourOf(category));
  style.setProperty(`${name}-ink`, inkOn(rgbOf(colourOf(category))));
}

function nameOf(category: string): string {
  let name = used.get(category);
  if (!name) {
    used.set(category, (name = `--category-${category.replace(/[^a-z_]/g, '-')}`));
    define(category, name);
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

onTheme(() => {
  for (const [category, name] of used) define(category, name);
});
