// Draws the visible boxes of a graph as a layered picture that is moved, zoomed, and walked through by keyboard.

import * as dagre from "./vendor/dagre.js";
import { svg } from "./dom.js";
import { number, short } from "./format.js";

const WIDTH = 150;
const HEIGHT = 34;
const READABLE = 0.45; // the zoom below which texts are too small
const RECOGNIZABLE = 0.15; // the zoom below which boxes are too small
const START = 0.7;
const LEGIBLE = 0.7; // the zoom below which boxes have shorter names in larger letters

export class GraphView {
  // onSelect(box), onToggle(path): a box was chosen, or none, or a scope is to be opened or closed.
  constructor({ onSelect, onToggle }) {
    this.onSelect = onSelect;
    this.onToggle = onToggle;
    this.layer = svg("g");
    this.element = svg("svg", { class: "graph", role: "application", "aria-label": "graph: move by dragging or arrows, zoom by the wheel or + and -, open a scope by a double click or Enter" }, marker(), this.layer);
    this.at = { x: 20, y: 20, zoom: 1 };
    this.boxes = new Map();
    this.frames = new Map();
    this.size = null;
    this.isFitted = true; // as long as the user has not moved it
    this.observer = new ResizeObserver(() => { if (this.size && this.isFitted) this.begin(); });
    this.observer.observe(this.element);
    this.listen();
  }

  destroy() {
    this.observer.disconnect();
  }

  // Draws the boxes; the one that had the focus keeps it, a scope also when it opens or closes.
  draw({ boxes, edges }) {
    const focused = this.layer.contains(document.activeElement) ? document.activeElement.dataset.path : null;
    const layout = new dagre.graphlib.Graph({ compound: true, multigraph: false });
    layout.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 34, marginx: 8, marginy: 8 });
    layout.setDefaultEdgeLabel(() => ({}));
    for (const box of boxes.values()) layout.setNode(box.path, box.isFrame ? {} : { width: WIDTH, height: HEIGHT });
    for (const box of boxes.values()) if (box.frame) layout.setParent(box.path, box.frame);
    for (const edge of edges) layout.setEdge(edge.source, edge.target);
    dagre.layout(layout);
    this.size = { width: layout.graph().width, height: layout.graph().height };
    this.boxes = new Map();
    this.frames = new Map();
    const frames = [...boxes.values()].filter((box) => box.isFrame);
    const plain = [...boxes.values()].filter((box) => !box.isFrame);
    this.layer.replaceChildren(
      ...frames.map((box) => this.frame(box, layout.node(box.path))),
      ...edges.map((edge) => this.edge(edge, layout.edge(edge.source, edge.target))),
      ...plain.map((box) => this.box(box, layout.node(box.path))));
    if (focused !== null) this.focus(focused);
  }

  focus(path) {
    (this.boxes.get(path) ?? this.frames.get(path))?.group.focus({ preventScroll: true });
  }

  frame(box, place) {
    const [x, y] = [place.x - place.width / 2, place.y - place.height / 2];
    const group = svg("g", { class: "frame", transform: `translate(${x} ${y})`, tabindex: 0, "aria-label": `open scope ${box.label}` },
      svg("title", {}, box.path), svg("rect", { width: place.width, height: place.height, rx: 9 }), svg("text", { x: 9, y: 15 }, `− ${short(box.label, 30)}`));
    this.frames.set(box.path, { group, place });
    this.react(group, box);
    return group;
  }

  box(box, place) {
    const group = svg("g", { class: box.isScope ? "box scope" : "box", transform: `translate(${place.x - WIDTH / 2} ${place.y - HEIGHT / 2})`, tabindex: 0, "aria-label": box.label },
      svg("title", {}, box.isScope ? `${box.path}: ${box.count} operations` : box.label));
    if (box.isScope) group.append(svg("rect", { x: 3, y: 3, width: WIDTH, height: HEIGHT, rx: 6, class: "shadow" }));
    const shape = svg("rect", { width: WIDTH, height: HEIGHT, rx: box.isScope ? 6 : 17 });
    group.append(shape, svg("text", { x: WIDTH / 2, y: 21, class: "near" }, short(box.label, box.isScope ? 15 : 19)), svg("text", { x: WIDTH / 2, y: 25, class: "far" }, short(box.label, box.isScope ? 9 : 10)));
    if (box.isScope) group.append(svg("text", { x: WIDTH - 6, y: 12, class: "count" }, number(box.count)));
    this.boxes.set(box.path, { group, shape, box, place });
    this.react(group, box);
    return group;
  }

  edge(edge, place) {
    const [first, ...rest] = place.points;
    const d = `M${first.x} ${first.y}${rest.map((point) => `L${point.x} ${point.y}`).join("")}`;
    const path = svg("path", { d, class: edge.isControl ? "edge control" : "edge", "marker-end": "url(#head)" }, svg("title", {}, `${edge.count} edge${edge.count === 1 ? "" : "s"}`));
    path.style.strokeWidth = String(Math.min(5, 1 + Math.log2(edge.count)));
    path.dataset.source = edge.source;
    path.dataset.target = edge.target;
    return path;
  }

  react(group, box) {
    group.dataset.path = box.path;
    group.addEventListener("click", () => { if (!this.moved) this.onSelect(box); });
    group.addEventListener("dblclick", () => (box.isScope ? this.onToggle(box.path) : null));
    group.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { this.onSelect(box); if (box.isScope) this.onToggle(box.path); event.preventDefault(); }
      if (event.key === "Escape") this.onSelect(null);
    });
  }

  // Colours and marks of boxes: style(box) -> {fill, critical, selected, note}.
  paint(style) {
    for (const { group, shape, box } of this.boxes.values()) {
      const { fill, critical, selected } = style(box);
      shape.style.fill = fill ?? "";
      group.classList.toggle("filled", Boolean(fill));
      group.classList.toggle("critical", critical);
      group.classList.toggle("selected", selected);
    }
    for (const path of this.layer.querySelectorAll("path.edge")) {
      const ends = [path.dataset.source, path.dataset.target].map((end) => this.boxes.get(end)?.group.classList.contains("critical"));
      path.classList.toggle("critical", ends[0] === true && ends[1] === true);
    }
  }

  listen() {
    let from = null;
    this.element.addEventListener("pointerdown", (event) => { from = { x: event.clientX - this.at.x, y: event.clientY - this.at.y, startX: event.clientX, startY: event.clientY }; this.moved = false; });
    this.element.addEventListener("pointermove", (event) => {
      if (!from || !(event.buttons & 1)) return;
      if (Math.hypot(event.clientX - from.startX, event.clientY - from.startY) > 4) this.moved = true;
      this.move({ ...this.at, x: event.clientX - from.x, y: event.clientY - from.y });
    });
    this.element.addEventListener("pointerup", () => { from = null; });
    this.element.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(Math.exp(-event.deltaY / 500), event.offsetX, event.offsetY); }, { passive: false });
    this.element.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
      if (step) { this.move({ ...this.at, x: this.at.x + step[0], y: this.at.y + step[1] }); event.preventDefault(); }
      if (event.key === "+" || event.key === "-") this.zoom(event.key === "+" ? 1.2 : 1 / 1.2, this.element.clientWidth / 2, this.element.clientHeight / 2);
    });
  }

  zoom(factor, x, y) {
    const zoom = Math.min(3, Math.max(0.05, this.at.zoom * factor));
    const ratio = zoom / this.at.zoom;
    this.move({ zoom, x: x - (x - this.at.x) * ratio, y: y - (y - this.at.y) * ratio });
  }

  move(at) {
    this.at = at;
    this.isFitted = false;
    this.layer.classList.toggle("distant", at.zoom < LEGIBLE);
    this.layer.setAttribute("transform", `translate(${at.x} ${at.y}) scale(${at.zoom})`);
  }

  // The whole picture, not larger than life.
  fit() {
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    const zoom = Math.min(1, this.zoomOfWhole);
    this.move({ zoom, x: (width - this.size.width * zoom) / 2, y: Math.max(10, (height - this.size.height * zoom) / 2) });
    this.isFitted = true;
  }

  // The zoom at which the whole picture is in the window.
  get zoomOfWhole() {
    return Math.min((this.element.clientWidth - 20) / this.size.width, (this.element.clientHeight - 20) / this.size.height);
  }

  // The whole picture if it can be read then, or else that box.
  fitOrShow(path) {
    if (this.zoomOfWhole >= READABLE) this.fit();
    else this.show(path);
  }

  // Where to begin: the whole picture if its boxes are recognizable, or else the top, around the box with the most edges.
  begin() {
    if (this.zoomOfWhole >= RECOGNIZABLE) return this.fit();
    const edges = new Map();
    for (const path of this.layer.querySelectorAll("path.edge")) for (const end of [path.dataset.source, path.dataset.target]) edges.set(end, (edges.get(end) ?? 0) + 1);
    const [busiest] = [...this.boxes.values()].sort((first, second) => (edges.get(second.box.path) ?? 0) - (edges.get(first.box.path) ?? 0));
    const [zoom, { x, y }] = [START, busiest.place];
    this.move({ zoom, x: this.element.clientWidth / 2 - x * zoom, y: Math.min(10, this.element.clientHeight / 2 - y * zoom) });
    this.isFitted = true;
    return undefined;
  }

  show(path) {
    const found = this.boxes.get(path) ?? this.frames.get(path);
    if (!found) return;
    const zoom = Math.max(this.at.zoom, 0.7);
    this.move({ zoom, x: this.element.clientWidth / 2 - found.place.x * zoom, y: this.element.clientHeight / 2 - found.place.y * zoom });
  }
}

function marker() {
  return svg("defs", {}, svg("marker", { id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", markerUnits: "userSpaceOnUse" }, svg("path", { d: "M0 0L8 4L0 8z" })));
}
