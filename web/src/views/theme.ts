// Light, dark, or as the system has it. What draws on a canvas listens for the change.

import { button } from './dom';

const kKey = 'profgpu-theme';
const kThemes = ['system', 'light', 'dark'] as const;
type Theme = (typeof kThemes)[number];

const system = matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();
let chosen: Theme = remembered();

// A page from the disk may have no storage; then the choice lasts as long as the page.
function remembered(): Theme {
  try {
    const text = localStorage.getItem(kKey);
    return kThemes.find((theme) => theme === text) ?? 'system';
  } catch {
    return 'system';
  }
}

function apply(): void {
  if (chosen === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  for (const listener of listeners) listener();
}

export function isDark(): boolean {
  return chosen === 'dark' || (chosen === 'system' && system.matches);
}

/** Calls back whenever the colours change; the answer ends that. */
export function onTheme(changed: () => void): () => void {
  listeners.add(changed);
  return () => listeners.delete(changed);
}

/** The value of a colour of the style sheet, for a canvas. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function themeButton(): HTMLButtonElement {
  const made = button('', { class: 'plain', id: 'theme' }, () => {
    chosen = kThemes[(kThemes.indexOf(chosen) + 1) % kThemes.length]!;
    try {
      localStorage.setItem(kKey, chosen);
    } catch { /* see remembered() */ }
    name();
    apply();
  });
  const name = () => {
    made.textContent = `Theme: ${chosen}`;
  };
  name();
  apply();
  return made;
}

system.addEventListener('change', apply);
