// Dark or light, as the system has it or as the user chose; and the colours of charts in it.

const KEY = "aioflow-theme";

// Where the choice is kept; null where the browser does not let the page keep anything, as in a closed frame.
function storage() {
  try {
    return localStorage;
  } catch {
    return null;
  }
}

export function currentTheme() {
  return document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

export function startTheme() {
  const chosen = storage()?.getItem(KEY);
  if (chosen) document.documentElement.dataset.theme = chosen;
}

export function switchTheme() {
  const next = currentTheme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  storage()?.setItem(KEY, next);
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const SERIES = 8;

export function seriesColour(place) {
  return colour(`series-${(place % SERIES) + 1}`);
}

// The same text has the same colour on every page.
export function textColour(text) {
  let sum = 0;
  for (const letter of text) sum = (sum * 31 + letter.codePointAt(0)) >>> 0;
  return seriesColour(sum);
}
