// Makes elements. Texts become text nodes, never markup, so names from graphs and programs change nothing.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  set(element, attributes);
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined).map(textOrElement));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  set(element, attributes);
  element.append(...children.flat(Infinity).map(textOrElement));
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
}

function textOrElement(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

// Marks the element of the current item, with its kind: page, step.
export function markCurrent(element, kind, isCurrent) {
  if (isCurrent) element.setAttribute("aria-current", kind);
  else element.removeAttribute("aria-current");
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined).map(textOrElement));
}
