import './style.css';
import { readPack } from './pack';
import { buildPage } from './views/page';

// The plain report stays where anything here fails: it needs neither script nor data.
function say(reason: unknown): void {
  const line = document.getElementById('failure');
  if (!line) return;
  const text = reason instanceof Error ? reason.message : String(reason);
  line.textContent = `The views and the timeline cannot be shown: ${text}. Below is the plain report.`;
  line.hidden = false;
}

async function start(): Promise<void> {
  const element = document.getElementById('data');
  const packed = element?.textContent;
  const page = document.getElementById('page');
  if (!element || !packed || !page) throw new Error('this file holds no data for them');
  const data = await readPack(packed);
  buildPage(page, data, { name: element.dataset.name ?? 'report', rank: Number(element.dataset.rank) });
  element.remove();
  page.hidden = false;
  document.documentElement.classList.add('ready');
}

start().catch(say);
