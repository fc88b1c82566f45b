// A graph as a tree of name scopes, of which some are open: which boxes are visible, and the edges between them.

const LEVEL = 40; // children of a scope above which those with numbered names are grouped
const GROUP = 5; // members of a group, at least
const CHUNK = 100; // members of a group that are shown together

export class GraphModel {
  constructor(graph) {
    this.nodes = graph.nodes;
    this.leftOut = graph.left_out;
    this.byName = new Map(graph.nodes.map((node, number) => [node.name, number]));
    this.root = scope("", "", null);
    graph.nodes.forEach((node, number) => this.insert(node.name.split("/"), number));
    gather(this.root);
    count(this.root);
    this.parents = new Map();
    this.link(this.root);
  }

  insert(parts, number) {
    let place = this.root;
    for (const part of parts) {
      if (!place.children.has(part)) place.children.set(part, scope(place.path ? `${place.path}/${part}` : part, part, place));
      place = place.children.get(part);
    }
    place.node = number;
  }

  link(item) {
    for (const child of item.children.values()) { this.parents.set(child.path, item); this.link(child); }
  }

  // The scopes above an operation, which must be open for it to be visible.
  scopesOf(name) {
    const found = [];
    const leaf = this.find(this.root, name);
    for (let item = leaf?.up; item && item !== this.root; item = item.up) found.push(item.path);
    if (leaf?.children.size) found.push(leaf.path);
    return found;
  }

  find(item, name) {
    if (item.node !== null && this.nodes[item.node].name === name) return item;
    for (const child of item.children.values()) {
      if (child.group || name === child.path || name.startsWith(`${child.path}/`)) {
        const found = this.find(child, name);
        if (found) return found;
      }
    }
    return null;
  }

  // The visible boxes by path, and the edges between them, when these scopes are open.
  visible(open) {
    const boxes = new Map();
    const owner = new Array(this.nodes.length);
    const walk = (item, frame) => {
      if (item.children.size && (item === this.root || open.has(item.path))) {
        if (item !== this.root) boxes.set(item.path, { ...about(item), frame, isFrame: true });
        const inside = item === this.root ? null : item.path;
        if (item.node !== null) this.addLeaf(boxes, owner, item.node, inside);
        for (const child of item.children.values()) walk(child, inside);
      } else if (item.children.size) {
        boxes.set(item.path, { ...about(item), frame, isFrame: false });
        for (const number of numbersIn(item)) owner[number] = item.path;
      } else this.addLeaf(boxes, owner, item.node, frame);
    };
    walk(this.root, null);
    return { boxes, edges: this.edges(owner) };
  }

  addLeaf(boxes, owner, number, frame) {
    const path = `op:${number}`;
    boxes.set(path, { path, label: this.nodes[number].name.split("/").pop(), frame, isFrame: false, numbers: [number], count: 1, isScope: false });
    owner[number] = path;
  }

  edges(owner) {
    const found = new Map();
    const add = (from, to, isControl) => {
      const [source, target] = [owner[from], owner[to]];
      if (source === target) return;
      const key = `${source}\n${target}`;
      const known = found.get(key);
      if (known) { known.count += 1; known.isControl &&= isControl; } else found.set(key, { source, target, count: 1, isControl });
    };
    this.nodes.forEach((node, number) => {
      for (const input of node.inputs) add(input, number, false);
      for (const input of node.controls) add(input, number, true);
    });
    return [...found.values()];
  }
}

function scope(path, label, up) {
  return { path, label, up, children: new Map(), node: null, count: 0, group: false };
}

function about(item) {
  return { path: item.path, label: item.label, count: item.count, numbers: numbersIn(item), isScope: true };
}

function numbersIn(item) {
  const found = item.node === null ? [] : [item.node];
  for (const child of item.children.values()) for (const number of numbersIn(child)) found.push(number);
  return found;
}

function count(item) {
  item.count = (item.node === null ? 0 : 1) + [...item.children.values()].reduce((sum, child) => sum + count(child), 0);
  return item.count;
}

// Where a scope has many children, as matmul_1, matmul_2, …, those of one name become a group.
function gather(item) {
  for (const child of item.children.values()) gather(child);
  if (item.children.size <= LEVEL) return;
  const groups = new Map();
  for (const child of item.children.values()) {
    const base = child.label.replace(/_\d+$/, "");
    if (!groups.has(base)) groups.set(base, []);
    groups.get(base).push(child);
  }
  item.children = new Map();
  for (const [base, members] of groups) {
    if (members.length < GROUP) for (const child of members) item.children.set(child.label, child);
    else item.children.set(`${base} *`, grouped(item, `${base} ×${members.length}`, members));
  }
}

function grouped(up, label, members) {
  const made = scope(`${up.path}/${label}`, label, up);
  made.group = true;
  if (members.length > CHUNK) {
    for (let first = 0; first < members.length; first += CHUNK) {
      const some = members.slice(first, first + CHUNK);
      const part = grouped(made, `${first + 1}–${first + some.length}`, some);
      made.children.set(part.label, part);
    }
  } else {
    for (const child of members) { child.up = made; made.children.set(child.label, child); }
  }
  return made;
}
