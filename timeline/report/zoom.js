// Draws the picture of one step on all ranks, which zooms. Functions only: page.js calls them.

/** Puts operations that overlap on rows of their own; gives each its row, and the rows' number. */
function stack(operations) {
  const ends = [];
  const rows = operations.map((operation) => {
    let row = ends.findIndex((end) => end <= operation[4]);
    if (row < 0) row = ends.length < 8 ? ends.push(0) - 1 : ends.indexOf(Math.min(...ends));
    ends[row] = operation[8];
    return row;
  });
  return { rows, count: Math.max(ends.length, 1) };
}

function describe([name, tensors, size, path, submitted, , agreed, start, end]) {
  const more = tensors > 1 ? ` and ${tensors - 1} more` : "";
  return `${name}${more}, ${bytes(size)}, ${path}: submitted at ${time(submitted)}, agreed at ` +
    `${time(agreed)}, moved ${time(start)} to ${time(end)}`;
}

/** Zooms and pans one step: mouse, buttons and keys change `view`, draw() shows it. */
function zoomable() {
  const left = 80, thread = 22, line = 7;
  let width = 1;
  const view = { from: 0, to: 1 };
  let step = data.pictures[0], span = 1;
  const picture = svg("svg", { tabindex: "0", role: "img", id: "zoom" });
  const said = html("p", { class: "quiet", "aria-live": "polite", id: "zoom-said" });
  const list = html("div");
  const x = (us) => left + ((us - view.from) / (view.to - view.from)) * (width - left);

  function bar(parent, from, to, y, height, kind, title) {
    const a = Math.max(x(from), left), b = Math.min(x(to), width);
    if (b < a || x(to) < left || x(from) > width) return;
    parent.append(svg("rect", { x: a, y, width: Math.max(b - a, 0.7), height, class: kind },
      svg("title", {}, title)));
  }

  function drawRank(rank, y) {
    const { rows, count } = stack(rank.operations);
    const group = svg("g", {}, svg("text", { x: 8, y: y + 16 }, rank.label));
    bar(group, rank.from, rank.to, y + 3, thread - 4, "p0",
      `rank ${rank.rank} is outside Ronde, but where it is blocked: ${time(rank.to - rank.from)}`);
    for (const [name, from, to] of rank.marks) {
      bar(group, from, to, y, 3, "p3", `${name}: ${time(to - from)}`);
    }
    for (const [name, from, to] of rank.passes) {
      bar(group, from, to, y + thread - 1, 2, name === "backward" ? "p4" : "p5",
        `${name}: ${time(to - from)}`);
    }
    for (const [, from, to] of rank.waits) {
      bar(group, Math.max(from, rank.from), Math.min(to, rank.to), y + 3, thread - 4, "p1",
        `rank ${rank.rank} is blocked for ${time(to - from)}`);
    }
    rank.operations.forEach((operation, i) => {
      const top = y + thread + rows[i] * line;
      bar(group, operation[4], operation[7], top, line - 1, "agreeing", describe(operation));
      bar(group, operation[7], operation[8], top, line - 1, "moving", describe(operation));
    });
    picture.append(group);
    return y + thread + count * line + 8;
  }

  function draw() {
    picture.replaceChildren();
    width = Math.max(at("picture").clientWidth, 260);
    let y = 22;
    const ticks = width > 600 ? 5 : 3;
    for (let i = 0; i <= ticks; ++i) {
      const us = view.from + ((view.to - view.from) * i) / ticks;
      picture.append(svg("text", { x: x(us), y: 14, class: "soft",
        "text-anchor": i === ticks ? "end" : i ? "middle" : "start" }, time(us)));
    }
    for (const rank of step.ranks) y = drawRank(rank, y);
    picture.setAttribute("viewBox", `0 0 ${width} ${y}`);
    const shown = `${data.unit} ${step.number} (${step.why}): ` +
      `${time(view.from)} to ${time(view.to)} of ${time(span)}`;
    picture.setAttribute("aria-label",
      shown + ", all ranks. Plus and minus zoom, arrows move, 0 shows all.");
    said.textContent = shown;
  }

  function look(from, to) {
    const wide = Math.min(Math.max(to - from, span / 1e5), span);
    view.from = Math.min(Math.max(from, 0), span - wide);
    view.to = view.from + wide;
    draw();
  }
  function zoom(factor, center = (view.from + view.to) / 2) {
    look(center - (center - view.from) * factor, center + (view.to - center) * factor);
  }
  const move = (share) => look(view.from + share * (view.to - view.from),
    view.to + share * (view.to - view.from));
  const all = () => look(0, span);
  const keys = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": all,
    ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25) };

  const usAt = (event) => {
    const box = picture.getBoundingClientRect();
    const inner = ((event.clientX - box.left) / box.width) * width;
    return view.from + ((inner - left) / (width - left)) * (view.to - view.from);
  };
  picture.addEventListener("keydown", (event) => {
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  picture.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, usAt(event));
  }, { passive: false });
  picture.addEventListener("dblclick", (event) => zoom(0.4, usAt(event)));
  let held = null;
  picture.addEventListener("pointerdown", (event) => { held = usAt(event); });
  picture.addEventListener("pointermove", (event) => {
    if (held === null || !event.buttons) return;
    const by = held - usAt(event);
    look(view.from + by, view.to + by);
  });
  picture.addEventListener("pointerup", () => { held = null; });

  function choose(index) {
    step = data.pictures[index];
    span = Math.max(...step.ranks.map((rank) => rank.to), 1e-3);
    const rows = step.ranks.flatMap((rank) => rank.operations.map((operation) =>
      [rank.rank, ...[0, 1, 2, 4, 7, 8].map((field) => operation[field])]));
    list.replaceChildren(asTable(table("Operations of this " + data.unit, [["rank", asIs],
      ["first tensor", asIs], ["tensors", asIs], ["bytes", bytes], ["submitted", time],
      ["starts", time], ["ends", time]], rows)));
    all();
  }

  const select = html("select",
    { id: "step", change: (event) => choose(Number(event.target.value)) },
    ...data.pictures.map((one, i) => html("option", { value: i }, `${one.number} (${one.why})`)));
  const colour = (kind, text) =>
    html("span", { class: "key" }, html("i", { class: kind }), text);
  const button = (text, label, action) =>
    html("button", { type: "button", "aria-label": label, click: action }, text);
  at("picture").append(
    html("div", { class: "tools" }, html("label", { for: "step" }, data.unit), select,
      button("+", "Zoom in", keys["+"]), button("−", "Zoom out", keys["-"]),
      button("←", "Earlier", keys.ArrowLeft), button("→", "Later", keys.ArrowRight),
      button("All", "Show all", all)),
    html("p", { class: "quiet" },
      "Top row of a rank: ", colour("p0", "outside Ronde"), ", ", colour("p1", "blocked"), ", ",
      colour("p3", "marks"), "; the line under it: ", colour("p4", "backward"), ", ",
      colour("p5", "forward and update"), ". Below: its bundles, ",
      colour("agreeing", "until the data moves"), " and ", colour("moving", "while it does"),
      ". Drag, or hold Ctrl and turn the wheel."),
    picture, said, list);
  choose(0);
  window.addEventListener("resize", draw);
}
