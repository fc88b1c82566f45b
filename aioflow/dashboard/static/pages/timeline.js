// Timeline: a traced step in time, chosen from the last ones.

import { addressOf } from "../connection.js";
import { h, fill, markCurrent } from "../dom.js";
import { bytes, clock, seconds } from "../format.js";
import { TimelineView } from "../timeline_view.js";

export const title = "Timeline";

export function mount(main, store, go, wish) {
  return new TimelinePage(main, store, wish);
}

class TimelinePage {
  constructor(main, store, wish) {
    this.store = store;
    this.follows = true;
    this.number = null;
    this.choices = h("div", { class: "steps", role: "group", "aria-label": "traced steps" });
    this.save = h("a", { class: "button", download: "", hidden: true }, "save as Chrome trace");
    this.about = h("p", { class: "muted" }, "No step has been traced yet. A step is traced every few seconds while this page is open.");
    this.detail = h("div", { class: "card detail", hidden: true });
    this.view = new TimelineView((bar) => { this.follows = false; this.describe(bar); }, () => { this.follows = false; });
    this.view.element.hidden = true;
    main.append(h("div", { class: "bar" }, this.choices, this.save), this.about, this.view.element, this.detail);
    const near = wish?.time ? nearest(store.steps, wish.time) : null;
    if (near) { this.follows = false; this.choose(near.number); }
    this.stop = store.listen(() => this.update());
    this.update();
  }

  update() {
    const steps = this.store.steps;
    if (this.follows && steps.length && steps.at(-1).number !== this.number) this.choose(steps.at(-1).number);
    const shown = steps.map((step) => step.number).join();
    if (shown !== this.shown) this.showChoices(steps, shown);
  }

  // A bar for each traced step: the higher, the longer it took.
  showChoices(steps, shown) {
    this.shown = shown;
    const focused = this.choices.contains(document.activeElement) ? document.activeElement.dataset.number : null;
    const most = Math.max(...steps.map((step) => step.seconds));
    fill(this.choices, steps.map((step) => {
      const bar = h("i", {});
      bar.style.height = `${Math.max(8, Math.round((34 * step.seconds) / most))}px`;
      const button = h("button", { type: "button", title: `step ${step.number} at ${clock(step.time)}: ${seconds(step.seconds)}`, "aria-label": `step ${step.number}`, onclick: () => { this.follows = step === this.store.steps.at(-1); this.choose(step.number); } }, bar);
      button.dataset.number = step.number;
      return button;
    }));
    if (focused !== null) this.choices.querySelector(`[data-number="${focused}"]`)?.focus();
    this.mark();
  }

  mark() {
    for (const button of this.choices.children) markCurrent(button, "step", Number(button.dataset.number) === this.number);
  }

  choose(number) {
    this.number = number;
    this.mark();
    this.store.document(`steps/${number}.json`, 1).then((step) => { if (this.number === number) this.show(step); }, () => {
      this.about.textContent = `Step ${number} is not kept any more.`;
    });
  }

  show(step) {
    this.view.element.hidden = false;
    this.view.show(step);
    const left = step.left_out ? ` The ${step.left_out} shortest operations are left out.` : "";
    this.about.textContent = `Step ${step.number} at ${clock(step.time)} took ${seconds(step.seconds)}: computing ${seconds(step.compute)}, on the wire ${seconds(step.wire)}, waiting ${seconds(step.wait)}. It fetched ${step.fetches.join(", ")}.${left}`;
    this.offer(step.number);
    this.describe(null);
  }

  // The link by which a step is saved.
  async offer(number) {
    const address = await addressOf(`steps/${number}/trace.json`);
    Object.assign(this.save, { hidden: false, href: address, download: `step-${number}.json` });
  }

  describe(bar) {
    this.detail.hidden = !bar;
    if (!bar) return;
    const rows = [["operation", bar.name], ["type", bar.op_type], ["ready at", seconds(bar.ready)], ["began at", seconds(bar.start)], [bar.waits ? "waited" : "computed", seconds(bar.end - bar.start)], ["results", bytes(bar.bytes)]];
    fill(this.detail, h("dl", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
  }

  recolour() {
    this.view.draw();
  }

  unmount() {
    this.stop();
    this.view.destroy();
  }
}

function nearest(steps, time) {
  return steps.length ? steps.reduce((best, step) => (Math.abs(step.time - time) < Math.abs(best.time - time) ? step : best)) : null;
}
