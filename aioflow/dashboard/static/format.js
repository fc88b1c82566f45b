// Numbers as people read them.

const PREFIXES = [[1e-9, "n"], [1e-6, "µ"], [1e-3, "m"], [1, ""]];

export function seconds(value) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  if (value === 0) return "0 s";
  if (value >= 3600) return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
  if (value >= 120) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  const [factor, prefix] = PREFIXES.findLast(([least]) => Math.abs(value) >= least * 0.9995) ?? PREFIXES[0];
  return `${digits(value / factor)} ${prefix}s`;
}

export function bytes(value) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  while (Math.abs(value) >= 1024 && place < units.length - 1) { value /= 1024; place += 1; }
  return `${place ? digits(value) : Math.round(value)} ${units[place]}`;
}

export function number(value) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e6)) return value.toExponential(2);
  return digits(value);
}

function digits(value) {
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return String(value);
  return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : size >= 1 ? value.toFixed(2) : value.toPrecision(3).replace(/\.?0+$/, "");
}

// The text of a number beside an axis, without zeros at its end: 1.5, not 1.50.
export function tick(text) {
  return text.replace(/\.(\d*?)0+(?= |$)/, (_, kept) => (kept ? `.${kept}` : ""));
}

export function clock(time) {
  return new Date(time * 1000).toLocaleTimeString([], { hour12: false });
}

export function date(time) {
  return new Date(time * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short", hour12: false });
}

export function short(text, most = 48) {
  const letters = Array.from(text);
  return letters.length <= most ? text : `${letters.slice(0, (most * 2) / 3).join("")}…${letters.slice(-most / 3).join("")}`;
}

// A device as people say it: CPU:0 in this process, "worker 1 CPU:0" in a cluster.
export function deviceName(device) {
  if (!device.includes("device:")) return taskName(device);
  const kind = device.match(/(?:device:)?(\w+:\d+|\w+:\*)$/)?.[1] ?? device;
  const job = device.match(/job:(\w+)/)?.[1] ?? "localhost";
  const task = device.match(/task:(\d+)/)?.[1] ?? "";
  return job === "localhost" ? kind.toUpperCase() : `${job} ${task} ${kind}`;
}

export function taskName(task) {
  return task.replace("/job:", "").replace("/replica:0", "").replace("/task:", " ");
}
