// Elements out of data. Text reaches the document as text nodes only.

type Attributes = Record<string, string | number | boolean | null | undefined>;
export type Child = Node | string | number | null | undefined | false;

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  setAttributes(made, attributes);
  append(made, children);
  return made;
}

export function svg(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  setAttributes(made, attributes);
  append(made, children);
  return made;
}

function setAttributes(made: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    made.setAttribute(name, value === true ? '' : String(value));
  }
}

export function append(parent: Element, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(typeof child === 'number' ? String(child) : child);
  }
}

/** A button that a reader of the screen can name. */
export function button(text: Child, attributes: Attributes, pressed: () => void): HTMLButtonElement {
  const made = element('button', { type: 'button', ...attributes }, text);
  made.addEventListener('click', pressed);
  return made;
}

// Longer texts are cut where they are only looked at: a name of a megabyte would take seconds to lay out.
const kMostShown = 400;

/**
 * A name from a trace, made harmless to the eye: control characters as their pictures, marks that turn the writing
 * direction as their code, and cut at `most` characters.
 */
export function shown(name: string, most = kMostShown): string {
  const cut = name.length > most ? `${name.slice(0, most)}… (${name.length.toLocaleString('en-US')} characters)` : name;
  return cut
    .replace(/[\u0000-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/\u007f/g, '\u2421')
    .replace(/[\u0080-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
      (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** The clipboard where the browser lets us, else a selection and the old command. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = element('textarea', { class: 'offscreen' });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

export function copyButton(text: string, what: string): HTMLButtonElement {
  const made = button('Copy', { class: 'copy', 'aria-label': `Copy ${what}` }, () => {
    void copyText(text).then((done) => {
      made.textContent = done ? 'Copied' : 'Not copied';
      setTimeout(() => (made.textContent = 'Copy'), 1500);
    });
  });
  return made;
}
