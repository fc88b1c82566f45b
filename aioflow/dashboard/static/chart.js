// One chart over time: lines or stacked areas of several series, with a legend that shows the values under the pointer.

import uPlot from "./vendor/uplot.js";
import { h, fill } from "./dom.js";
import { bytes, clock, number, tick } from "./format.js";
import { colour, seriesColour } from "./theme.js";

const HEIGHT = 150;
const POWERS = Array.from({ length: 50 }, (_, power) => 2 ** power);

// The columns without the points that a later one has gone back behind, as after a recovery: the first column rises.
export function rising(columns) {
  const [steps] = columns;
  const least = steps.slice(); // from each place on
  for (let at = least.length - 2; at >= 0; at -= 1) least[at] = Math.min(least[at], least[at + 1]);
  return columns.map((column) => column.filter((_, at) => steps[at] === least[at]));
}

export class Chart {
  // names: () => the series to show, as [name, label]; format: value -> text
  // across(times, store): other numbers than times for the axis below, such as steps; every series has them all.
  constructor(title, { names, format, stacked = false, onPick = null, height = HEIGHT, across = null }) {
    Object.assign(this, { title, names, format, stacked, onPick, height, across });
    this.legend = h("div", { class: "legend" });
    this.host = h("div", { class: "plot" });
    this.element = h("section", { class: "card chart", hidden: true }, h("h2", {}, title), this.legend, this.host);
    this.plot = null;
    this.shown = "";
    this.observer = new ResizeObserver(() => this.plot?.setSize({ width: this.width(), height: this.height }));
    this.observer.observe(this.host);
  }

  width() {
    return Math.max(200, this.host.clientWidth);
  }

  update(store) {
    const names = this.names(store);
    const found = names.map(([name]) => store.series.get(name));
    this.element.hidden = !found.some((series) => series?.times.length > 1);
    if (this.element.hidden) return;
    this.data = this.joined(found);
    if (this.across) this.data = rising([this.across(this.data[0], store), ...this.data.slice(1)]);
    const shown = JSON.stringify(names);
    if (this.plot === null || shown !== this.shown) this.rebuild(names, shown);
    else this.plot.setData(this.drawn());
    this.showLegend(null);
  }

  joined(found) {
    const tables = found.map((series) => [series?.times ?? [], series?.values ?? []]);
    return tables.length === 1 ? tables[0] : uPlot.join(tables);
  }

  // Stacked: each line is the sum of its series and those below it; the first series is at the bottom.
  drawn() {
    if (!this.stacked) return this.data;
    const [times, ...rows] = this.data;
    const sums = rows.map((row, place) => times.map((_, at) => rows.slice(0, place + 1).reduce((sum, each) => sum + (each[at] ?? 0), 0)));
    return [times, ...sums];
  }

  rebuild(names, shown) {
    this.plot?.destroy();
    this.shown = shown;
    this.labels = names.map(([, label]) => label);
    const axis = { stroke: () => colour("muted"), grid: { stroke: () => colour("grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const series = names.map((_, place) => ({
      stroke: () => seriesColour(place),
      width: 1.5,
      spanGaps: true,
      points: { show: this.data[0].length < 3 },
      fill: this.stacked ? () => `${seriesColour(place)}66` : null,
    }));
    this.plot = new uPlot({
      width: this.width(),
      height: this.height,
      legend: { show: false },
      cursor: { y: false, drag: { x: true, y: false } },
      scales: { x: { time: !this.across }, y: { range: (_, least, most) => span(least, most, this.stacked) } },
      // powers of 2 for bytes
      axes: [{ ...axis, size: 26, space: 70, values: (_, places) => places.map(this.across ? number : clock) }, { ...axis, size: 64, incrs: this.format === bytes ? POWERS : undefined, values: (_, places) => places.map((place) => (place === null ? "" : tick(this.format(place)))) }],
      series: [{}, ...series],
      bands: this.stacked ? names.slice(1).map((_, place) => ({ series: [place + 2, place + 1] })) : undefined,
      hooks: { setCursor: [(plot) => this.showLegend(plot.cursor.idx)] },
    }, this.drawn(), this.host);
    if (this.onPick) this.plot.over.addEventListener("click", () => this.plot.cursor.idx !== null && this.onPick(this.data[0][this.plot.cursor.idx]));
  }

  showLegend(at) {
    const rows = this.data.slice(1);
    fill(this.legend, this.labels.map((label, place) => {
      const value = at === null || at === undefined ? rows[place].findLast((each) => each !== null && each !== undefined) : rows[place][at];
      const key = h("i", {});
      key.style.background = seriesColour(place);
      return h("span", { class: "key", title: label }, key, h("span", { class: "label" }, label), h("b", {}, value === null || value === undefined ? "–" : this.format(value)));
    }));
  }

  recolour() {
    this.plot?.redraw(false, true);
  }

  destroy() {
    this.observer.disconnect();
    this.plot?.destroy();
  }
}

function span(least, most, fromZero) {
  if (least === null || most === null) return [0, 1];
  if (fromZero || (least >= 0 && least < most * 0.6)) least = 0;
  const room = (most - least) * 0.08 || Math.abs(most) * 0.1 || 1;
  return [least === 0 ? 0 : least - room, most + room];
}
