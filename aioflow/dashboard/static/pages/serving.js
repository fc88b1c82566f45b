// Serving: requests, batches and why they began, percentiles of times, and versions of each served model.

import { Chart } from "../chart.js";
import { h, fill } from "../dom.js";
import { number, seconds, short } from "../format.js";

const LINES = 8;

export const title = "Serving";

export function mount(main, store) {
  const models = h("div", { class: "models" });
  const charts = [
    new Chart("Calls per second", { names: lines("calls"), format: number }),
    new Chart("Time of a call, 50th and 99th percentile", { names: lines("latency"), format: seconds }),
    new Chart("Rows of a batch, on average", { names: lines("batch"), format: number }),
    new Chart("Lag of the event loop", { names: () => [["lag:loop", "lag"]], format: seconds }),
  ];
  const empty = h("p", { class: "empty" }, "No model is served yet.");
  main.append(empty, models, h("div", { class: "grid" }, charts.map((chart) => chart.element)));

  function update() {
    const serving = store.newest.Serving;
    empty.hidden = Boolean(serving?.models.length);
    fill(models, (serving?.models ?? []).map((model) => card(model, store)));
    for (const chart of charts) chart.update(store);
  }

  update();
  const stop = store.listen(update);
  return { recolour: () => charts.forEach((chart) => chart.recolour()), unmount: () => { stop(); charts.forEach((chart) => chart.destroy()); } };
}

function lines(group) {
  return (store) => store.group(group).slice(0, LINES).map((name) => [name, short(name.slice(group.length + 1))]);
}

function card(model, store) {
  const percentiles = (name, values) => h("tr", {}, h("td", {}, name), [0, 1, 2].map((place) => h("td", {}, seconds(values[place]))));
  const rows = [
    ["calls", `${number(model.calls)}, ${number(store.last(`calls:${model.name}`) ?? 0)} per second`],
    ["requests", Object.entries(model.requests).map(([status, count]) => `${status}: ${number(count)}`).join(", ") || "none over HTTP"],
    ["rows", `${number(model.rows)}, ${number(model.waiting)} wait now`],
    ["refused", number(model.refused)],
  ];
  return h("section", { class: "card model" },
    h("h2", { title: model.name }, short(model.name)),
    h("div", { class: "versions" }, model.versions.map((version) => h("span", { class: `version ${version.state}`, title: version.error || version.state }, `${version.number} ${version.state}${version.labels.length ? ` · ${version.labels.join(", ")}` : ""}`))),
    h("dl", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["time of", "p50", "p90", "p99"].map((name) => h("th", {}, name)))),
      h("tbody", {}, model.request_seconds.length ? percentiles("a request", model.request_seconds) : null, percentiles("a call", model.call_seconds), percentiles("its wait", model.wait_seconds)))),
    bars("batches by reason", Object.entries(model.batches)),
    bars("batches by rows, up to", batchRows(model.batch_rows)));
}

function batchRows(counts) {
  const last = counts.findLastIndex((count) => count > 0);
  return counts.slice(0, last + 1).map((count, place) => [String(2 ** place), count]);
}

function bars(name, rows) {
  const most = Math.max(1, ...rows.map(([, count]) => count));
  return h("div", { class: "bars" }, h("h3", {}, name), rows.length ? null : h("p", { class: "muted" }, "none yet"), rows.map(([label, count]) => {
    const bar = h("i", {});
    bar.style.width = `${(100 * count) / most}%`;
    return h("div", {}, h("span", {}, label), h("div", { class: "track" }, bar), h("b", {}, number(count)));
  }));
}
