// Draws one traced step on a canvas: a lane for each thread of each device, bars, arrows; zoomed and moved in time.

import { h } from "./dom.js";
import { bytes, deviceName, seconds, short } from "./format.js";
import { colour, textColour } from "./theme.js";

const ROW = 22;
const HEAD = 24;
const NAMES = 190;
const GAP = 8;

export class TimelineView {
  // onSelect(bar): a bar was chosen, or null; onLook(): the view was zoomed or moved.
  constructor(onSelect, onLook) {
    this.onSelect = onSelect;
    this.onLook = onLook;
    this.canvas = h("canvas", { class: "timeline", tabindex: 0, role: "application", "aria-label": "timeline of a step: wheel or + and - zoom, dragging or arrows left and right move, arrows up and down choose an operation, f fits" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.element = h("div", { class: "card timeline-host" }, this.canvas, this.tip);
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
    this.listen();
  }

  show(step) {
    this.step = step;
    this.rows = layOut(step);
    this.selected = null;
    this.fit();
  }

  fit() {
    if (!this.step) return;
    const ends = [...this.step.bars.map((bar) => bar.end), ...this.step.arrows.map((arrow) => arrow.arrived)];
    this.begin = 0;
    this.end = Math.max(this.step.seconds, ...ends) * 1.01 || 1;
    this.draw();
  }

  get names() {
    return Math.min(NAMES, this.canvas.clientWidth * 0.3);
  }

  x(time) {
    return this.names + ((time - this.begin) / (this.end - this.begin)) * (this.canvas.clientWidth - this.names);
  }

  timeAt(x) {
    return this.begin + ((x - this.names) / (this.canvas.clientWidth - this.names)) * (this.end - this.begin);
  }

  draw() {
    if (!this.step) return;
    const width = this.element.clientWidth - 2;
    const height = HEAD + this.rows.height + 6;
    const scale = devicePixelRatio || 1;
    this.canvas.style.height = `${height}px`;
    this.canvas.style.width = `${width}px`;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    pen.textBaseline = "middle";
    this.drawAxis(pen, width, height);
    pen.save();
    pen.beginPath();
    pen.rect(this.names, 0, width - this.names, height);
    pen.clip();
    for (const bar of this.step.bars) this.drawBar(pen, bar);
    for (const arrow of this.step.arrows) this.drawArrow(pen, arrow);
    pen.restore();
    this.drawLanes(pen);
  }

  drawAxis(pen, width, height) {
    const wanted = Math.max(2, Math.floor((width - this.names) / 110));
    const raw = (this.end - this.begin) / wanted;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw);
    pen.strokeStyle = colour("grid");
    pen.fillStyle = colour("muted");
    for (let time = Math.ceil(this.begin / step) * step; time < this.end; time += step) {
      const x = this.x(time);
      pen.beginPath();
      pen.moveTo(x, HEAD - 4);
      pen.lineTo(x, height);
      pen.stroke();
      const text = Math.abs(time) < step / 1e6 ? "0" : seconds(time);
      if (x + 3 + pen.measureText(text).width < width) pen.fillText(text, x + 3, 11);
    }
  }

  drawLanes(pen) {
    pen.fillStyle = colour("card");
    pen.fillRect(0, 0, this.names, HEAD + this.rows.height + 6);
    this.step.lanes.forEach((lane, number) => {
      const { top, height } = this.rows.lanes[number];
      pen.fillStyle = colour("ink");
      pen.fillText(fitted(pen, deviceName(lane.device), this.names - 14), 8, HEAD + top + 8);
      pen.fillStyle = colour("muted");
      if (height >= ROW) pen.fillText(fitted(pen, lane.thread, this.names - 14), 8, HEAD + top + 20);
      pen.strokeStyle = colour("line");
      pen.beginPath();
      pen.moveTo(0, HEAD + top + height + GAP / 2);
      pen.lineTo(this.canvas.clientWidth, HEAD + top + height + GAP / 2);
      pen.stroke();
    });
  }

  drawBar(pen, bar) {
    const [left, right] = [this.x(bar.start), this.x(bar.end)];
    if (right < this.names || left > this.canvas.clientWidth) return;
    const width = Math.max(1, right - left);
    const y = HEAD + this.rows.places.get(bar);
    pen.globalAlpha = bar.waits ? 0.35 : 0.85;
    pen.fillStyle = textColour(bar.op_type);
    pen.fillRect(left, y + 1, width, ROW - 5);
    pen.globalAlpha = 1;
    if (bar === this.selected || this.step.critical.includes(bar.name)) {
      pen.strokeStyle = bar === this.selected ? colour("ink") : colour("bad");
      pen.lineWidth = bar === this.selected ? 2 : 1;
      pen.strokeRect(left + 0.5, y + 1.5, width - 1, ROW - 6);
      pen.lineWidth = 1;
    }
    if (width > 34) {
      pen.fillStyle = bar.waits ? colour("ink") : colour("card");
      const from = Math.max(left, this.names) + 4;
      pen.fillText(fitted(pen, bar.name, right - from - 4), from, y + ROW / 2 - 1);
    }
  }

  drawArrow(pen, arrow) {
    const rows = [arrow.source, arrow.target].map((lane) => (lane < 0 ? null : HEAD + this.rows.lanes[lane].top + ROW / 2));
    const [to] = [rows[1] ?? rows[0]];
    const from = rows[0] ?? to;
    if (to === undefined || to === null) return;
    const [left, right] = [this.x(arrow.sent), this.x(arrow.arrived)];
    pen.strokeStyle = colour("accent");
    pen.fillStyle = colour("accent");
    pen.beginPath();
    pen.moveTo(left, from);
    pen.bezierCurveTo((left + right) / 2, from, (left + right) / 2, to, right, to);
    pen.stroke();
    pen.beginPath();
    pen.moveTo(right, to);
    pen.lineTo(right - 6, to - 3);
    pen.lineTo(right - 6, to + 3);
    pen.fill();
  }

  barAt(x, y) {
    return this.step?.bars.findLast((bar) => {
      const top = HEAD + this.rows.places.get(bar);
      return y >= top && y < top + ROW && x >= this.x(bar.start) - 1 && x <= Math.max(this.x(bar.end), this.x(bar.start) + 2);
    });
  }

  listen() {
    let from = null;
    let moved = false;
    this.canvas.addEventListener("pointerdown", (event) => { from = { x: event.offsetX, begin: this.begin, end: this.end }; moved = false; this.canvas.setPointerCapture(event.pointerId); });
    this.canvas.addEventListener("pointermove", (event) => {
      if (from && event.buttons & 1) {
        const by = ((event.offsetX - from.x) / (this.canvas.clientWidth - this.names)) * (from.end - from.begin);
        moved ||= Math.abs(event.offsetX - from.x) > 4;
        this.look(from.begin - by, from.end - by);
      } else this.point(event);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      from = null;
      if (!moved) this.select(this.barAt(event.offsetX, event.offsetY) ?? null);
    });
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(Math.exp(event.deltaY / 400), this.timeAt(event.offsetX)); }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => {
      const span = this.end - this.begin;
      const middle = (this.begin + this.end) / 2;
      const actions = { "+": () => this.zoom(0.7, middle), "-": () => this.zoom(1.4, middle), f: () => this.fit(), ArrowLeft: () => this.look(this.begin - span / 8, this.end - span / 8), ArrowRight: () => this.look(this.begin + span / 8, this.end + span / 8), ArrowDown: () => this.walk(1), ArrowUp: () => this.walk(-1), Escape: () => this.select(null) };
      if (actions[event.key]) { actions[event.key](); event.preventDefault(); }
    });
  }

  select(bar) {
    this.selected = bar;
    this.onSelect(bar);
    this.draw();
  }

  // Chooses the operation that began after, or before, the chosen one, and moves to it if it is out of sight.
  walk(by) {
    const bars = [...this.step.bars].sort((first, second) => first.start - second.start);
    const bar = bars.at(Math.min(bars.length - 1, Math.max(0, bars.indexOf(this.selected) + by)));
    if (!bar) return;
    const span = this.end - this.begin;
    if (bar.end < this.begin || bar.start > this.end) this.look(bar.start - span / 2, bar.start + span / 2);
    this.select(bar);
  }

  zoom(factor, around) {
    this.look(around - (around - this.begin) * factor, around + (this.end - around) * factor);
  }

  look(begin, end) {
    this.onLook();
    if (end - begin < 1e-9 || end - begin > 100 * this.step.seconds + 1) return;
    Object.assign(this, { begin, end });
    this.draw();
  }

  point(event) {
    const bar = this.barAt(event.offsetX, event.offsetY);
    this.tip.hidden = !bar;
    if (!bar) return;
    this.tip.textContent = `${short(bar.name, 60)}\n${bar.op_type}${bar.waits ? " (waits)" : ""}, ${seconds(bar.end - bar.start)}\n${bytes(bar.bytes)}, ready at ${seconds(bar.ready)}`;
    this.tip.style.left = `${Math.min(event.offsetX + 12, this.canvas.clientWidth - 230)}px`;
    this.tip.style.top = `${event.offsetY + 14}px`;
  }

  destroy() {
    this.observer.disconnect();
  }
}

// Bars of one lane that overlap, as waits do, get rows below each other.
function layOut(step) {
  const ends = step.lanes.map(() => []);
  const rowOf = new Map();
  for (const bar of step.bars) {
    const rows = ends[bar.lane];
    let row = rows.findIndex((end) => end <= bar.start + 1e-12);
    if (row < 0) row = rows.length;
    rows[row] = bar.end;
    rowOf.set(bar, row);
  }
  let top = 0;
  const lanes = ends.map((rows) => {
    const lane = { top, height: Math.max(1, rows.length) * ROW };
    top += lane.height + GAP;
    return lane;
  });
  const places = new Map(step.bars.map((bar) => [bar, lanes[bar.lane].top + rowOf.get(bar) * ROW]));
  return { lanes, places, height: top };
}

function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  const letters = Array.from(text);
  let most = Math.floor((letters.length * width) / (pen.measureText(text).width + 1));
  while (most > 1 && pen.measureText(`${letters.slice(0, most).join("")}…`).width > width) most -= 1;
  return most > 1 ? `${letters.slice(0, most).join("")}…` : "";
}
