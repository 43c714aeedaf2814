// Colours of categories, for a canvas and for elements.

import { categoryColour } from '../categories';
import { isDark, onTheme } from './theme';

// Kinds of a device's time that are no category of an event.
const kSame: Record<string, string> = { compute: 'gemm', idle: 'other_phase' };

const used = new Map<string, string>();

/** For a canvas: the colour as it is now. */
export function colourOf(category: string): string {
  return categoryColour(kSame[category] ?? category, isDark());
}

/** For elements: follows the theme. */
export function cssColour(category: string): string {
  let name = used.get(category);
  if (!name) {
    used.set(category, (name = `--category-${category.replace(/[^a-z_]/g, '-')}`));
    document.documentElement.style.setProperty(name, colourOf(category));
  }
  return `var(${name})`;
}

onTheme(() => {
  for (const [category, name] of used) document.documentElement.style.setProperty(name, colourOf(category));
});
