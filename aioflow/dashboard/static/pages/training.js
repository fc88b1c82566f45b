// Training: losses and metrics by step and by epoch, the time left, histograms and pictures of summaries.

import { Chart } from "../chart.js";
import { h, fill, svg } from "../dom.js";
import { number, seconds, short } from "../format.js";

export const title = "Training";

export function mount(main, store) {
  return new TrainingPage(main, store);
}

class TrainingPage {
  constructor(main, store) {
    this.store = store;
    this.tiles = h("div", { class: "tiles" });
    this.bar = h("progress", { max: 1, value: 0, "aria-label": "done" });
    this.empty = h("p", { class: "empty" }, "No training has reported yet: call `fit`, or use a monitored session with a ProgressHook or a SummarySaverHook.");
    this.grid = h("div", { class: "grid" });
    this.epochs = h("section", { class: "card wide", hidden: true });
    this.summaries = h("div", { class: "grid summaries" });
    this.charts = new Map();
    main.append(this.tiles, this.bar, this.empty, this.grid, this.epochs, this.summaries);
    this.stop = store.listen(() => this.update());
    this.update();
  }

  update() {
    const training = this.store.newest.Training;
    this.empty.hidden = Boolean(training);
    this.bar.hidden = !training?.steps;
    if (!training) return;
    this.bar.value = training.steps ? training.step / training.steps : 0;
    this.showTiles(training);
    for (const name of this.store.group("train").filter((each) => each !== "train:step")) this.chartOf(name);
    for (const chart of this.charts.values()) chart.update(this.store);
    this.showEpochs(training.history);
    if (this.store.newest.Summaries !== this.shown) this.showSummaries(this.store.newest.Summaries);
  }

  showTiles(training) {
    const of = (value, all) => (value === null ? "–" : `${number(value)}${all ? ` / ${number(all)}` : ""}`);
    const rows = [["step", of(training.step, training.steps)], ...(training.epoch === null ? [] : [["epoch", of(training.epoch + 1, training.epochs)]]), ["left", seconds(training.left)], ...Object.entries(training.values).slice(0, 4).map(([name, value]) => [name, number(value)])];
    fill(this.tiles, rows.map(([label, value]) => h("div", { class: "tile" }, h("b", {}, value), h("span", {}, short(label, 30)))));
  }

  chartOf(name) {
    if (this.charts.has(name)) return;
    const label = short(name.slice("train:".length));
    const chart = new Chart(`${label} by step`, { names: () => [[name, label]], format: number, across: stepsAt });
    this.charts.set(name, chart);
    this.grid.append(chart.element);
  }

  showEpochs(history) {
    this.epochs.hidden = !history.length;
    const shown = JSON.stringify(history.at(-1)) + history.length;
    if (!history.length || shown === this.shownEpochs) return;
    this.shownEpochs = shown;
    const names = [...new Set(history.flatMap((epoch) => Object.keys(epoch.values)))];
    fill(this.epochs, h("h2", {}, "Epochs"), h("div", { class: "scroll tall" }, h("table", {},
      h("thead", {}, h("tr", {}, ["epoch", ...names].map((name) => h("th", { title: name }, short(name, 30))))),
      h("tbody", {}, [...history].reverse().map((epoch) => h("tr", {}, h("td", {}, epoch.number + 1), names.map((name) => h("td", {}, number(epoch.values[name])))))))));
  }

  showSummaries(summaries) {
    this.shown = summaries;
    if (!summaries) return;
    fill(this.summaries, summaries.histograms.map(histogram), summaries.pictures.map((picture) => h("figure", { class: "card" }, h("h2", { title: picture.tag }, `${short(picture.tag)}, step ${picture.step}`), h("img", { src: `data:image/png;base64,${picture.png}`, alt: picture.tag }))));
  }

  recolour() {
    for (const chart of this.charts.values()) chart.recolour();
  }

  unmount() {
    this.stop();
    for (const chart of this.charts.values()) chart.destroy();
  }
}

// The step that was reached at each of these times.
function stepsAt(times, store) {
  const steps = store.series.get("train:step") ?? { times: [], values: [] };
  let place = 0;
  return times.map((time) => {
    while (place + 1 < steps.times.length && steps.times[place + 1] <= time) place += 1;
    return steps.values[place] ?? 0;
  });
}

const WIDTH = 360;
const HEIGHT = 130;

function histogram({ tag, step, least, most, limits, counts }) {
  const highest = Math.max(...counts, 1);
  const span = most - least || 1;
  const picture = svg("svg", { class: "histogram", viewBox: `0 0 ${WIDTH} ${HEIGHT + 18}`, role: "img", "aria-label": `histogram of ${tag}` });
  let from = least;
  limits.forEach((limit, place) => {
    const to = Math.min(most, Math.max(least, limit));
    const height = (counts[place] / highest) * HEIGHT;
    if (counts[place] > 0) picture.append(svg("rect", { x: ((from - least) / span) * WIDTH, y: HEIGHT - height, width: Math.max(1, ((to - from) / span) * WIDTH - 0.5), height }, svg("title", {}, `${number(counts[place])} from ${number(from)} to ${number(to)}`)));
    from = to;
  });
  picture.append(svg("text", { x: 0, y: HEIGHT + 14 }, number(least)), svg("text", { x: WIDTH, y: HEIGHT + 14, class: "end" }, number(most)));
  return h("section", { class: "card" }, h("h2", { title: tag }, `${short(tag)}, step ${step}`), picture);
}
