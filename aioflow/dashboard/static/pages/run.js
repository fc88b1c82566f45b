// Run: the speed of steps, how their time divides, fetched numbers, queues, memory, and the lag of the event loop.

import { Chart } from "../chart.js";
import { h, fill } from "../dom.js";
import { bytes, deviceName, number, seconds, short } from "../format.js";

const VALUES = 8;
const LINES = 8;

export const title = "Run";

export function mount(main, store, go) {
  const tiles = h("div", { class: "tiles" });
  const grid = h("div", { class: "grid" });
  const empty = h("p", { class: "empty" }, "Waiting for a step of the session…");
  main.append(tiles, empty, grid);
  const charts = fixedCharts(go);
  const valueCharts = new Map();
  grid.append(...charts.map((chart) => chart.element));

  function update() {
    for (const name of store.group("value").slice(0, VALUES)) {
      if (!valueCharts.has(name)) valueCharts.set(name, addValueChart(name, charts, grid));
    }
    for (const chart of charts) chart.update(store);
    showTiles(tiles, store);
    empty.hidden = store.series.size > 0;
  }

  update();
  const stop = store.listen(update);
  return { recolour: () => charts.forEach((chart) => chart.recolour()), unmount: () => { stop(); charts.forEach((chart) => chart.destroy()); } };
}

function fixedCharts(go) {
  const pick = (time) => go("timeline", { time });
  return [
    new Chart("Steps per second", { names: () => [["rate:steps", "steps/s"]], format: number, onPick: pick }),
    new Chart("Time of a traced step", {
      names: () => [["time:compute", "compute"], ["time:wire", "wire"], ["time:wait", "wait"]], format: seconds, stacked: true, onPick: pick,
    }),
    new Chart("Time of a step", { names: () => [["time:step", "step"]], format: seconds, onPick: pick }),
    new Chart("Lag of the event loop", { names: () => [["lag:loop", "lag"]], format: seconds }),
    new Chart("Elements in queues", { names: lines("queue"), format: number }),
    new Chart("Memory of devices", { names: lines("memory", deviceName), format: bytes }),
    new Chart("Memory of the process", { names: () => [["process:memory", "resident"]], format: bytes }),
  ];
}

function lines(group, label = short) {
  return (store) => store.group(group).slice(0, LINES).map((name) => [name, label(name.slice(group.length + 1))]);
}

function addValueChart(name, charts, grid) {
  const label = short(name.slice("value:".length));
  const chart = new Chart(label, { names: () => [[name, label]], format: number });
  charts.push(chart);
  grid.insertBefore(chart.element, charts[3].element);
  return chart;
}

function showTiles(tiles, store) {
  const step = ["compute", "wire", "wait"].map((part) => store.last(`time:${part}`) ?? 0);
  const all = step.reduce((sum, part) => sum + part, 0);
  const share = all ? `${Math.round((100 * step[0]) / all)} %` : "–";
  const rows = [
    ["steps per second", number(store.last("rate:steps"))],
    ["time of a step", seconds(store.last("time:step"))],
    ["of it computing", share],
    ["loop lag", seconds(store.last("lag:loop"))],
    ["memory", bytes(store.last("process:memory"))],
  ];
  fill(tiles, rows.map(([label, value]) => h("div", { class: "tile" }, h("b", {}, value), h("span", {}, label))));
}
