// Draws the picture of one step on all ranks, which zooms. Functions only: page.js calls them.

/** Puts items that overlap on rows of their own; gives each its row, and the rows' number. */
function stack(items, from, to) {
  const ends = [];
  const rows = items.map((item) => {
    let row = ends.findIndex((end) => end <= item[from]);
    if (row < 0) row = ends.length < 8 ? ends.push(0) - 1 : ends.indexOf(Math.min(...ends));
    ends[row] = item[to];
    return row;
  });
  return { rows, count: ends.length };
}

/** The beginning of a name that fits into so many pixels; empty if hardly anything does. */
function fitting(name, pixels) {
  const letters = Math.floor((pixels - 6) / 6.5);
  if (letters >= name.length) return name;
  return letters < 3 ? "" : name.slice(0, letters - 1) + "…";
}

function describe([name, tensors, size, path, submitted, , agreed, start, end]) {
  const more = tensors > 1 ? ` and ${tensors - 1} more` : "";
  return `${name}${more}, ${bytes(size)}, ${path}: submitted at ${time(submitted)}, agreed at ` +
    `${time(agreed)}, moved ${time(start)} to ${time(end)}`;
}

/** Zooms and pans one step: mouse, buttons and keys change `view`, draw() shows it. */
function zoomable() {
  const left = 80, thread = 22, line = 7, lane = 16;
  let width = 1;
  const view = { from: 0, to: 1 };
  let step = data.pictures[0], span = 1;
  const picture = svg("svg", { tabindex: "0", role: "img", id: "zoom" });
  const said = html("p", { class: "quiet", "aria-live": "polite", id: "zoom-said" });
  const list = html("div");
  const x = (ms) => left + ((ms - view.from) / (view.to - view.from)) * (width - left);

  function bar(parent, from, to, y, height, kind, title) {
    const a = Math.max(x(from), left), b = Math.min(x(to), width);
    if (b < a || x(to) < left || x(from) > width) return;
    parent.append(svg("rect", { x: a, y, width: Math.max(b - a, 0.7), height, class: kind },
      svg("title", {}, title)));
  }

  /** Draws spans with their names, those inside others below them; returns where they end. */
  function drawSpans(parent, spans, y, kind) {
    const sorted = [...spans].sort((a, b) => a[1] - b[1] || b[2] - a[2]);
    const { rows, count } = stack(sorted, 1, 2);
    sorted.forEach(([name, from, to], i) => {
      const top = y + rows[i] * lane;
      bar(parent, from, to, top, lane - 2, kind, `${name}: ${time(to - from)}`);
      const begin = Math.max(x(from), left);
      const label = fitting(name, Math.min(x(to), width) - begin);
      if (label) parent.append(svg("text", { x: begin + 3, y: top + 11, class: "label" }, label));
    });
    return y + count * lane;
  }

  function drawRank(rank, start) {
    const { rows, count } = stack(rank.operations, 4, 8);
    const group = svg("g", {});
    let y = drawSpans(group, rank.marks, start, "mark");
    y = drawSpans(group, rank.passes, y, "pass");
    group.append(svg("text", { x: 8, y: y + 16 }, rank.label));
    bar(group, rank.from, rank.to, y + 3, thread - 4, "p0",
      `rank ${rank.rank} is outside Ronde, but where it is blocked: ${time(rank.to - rank.from)}`);
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
    return y + thread + Math.max(count, 1) * line + 8;
  }

  function draw() {
    picture.replaceChildren();
    width = Math.max(at("picture").clientWidth, 260);
    let y = 22;
    const ticks = width > 600 ? 5 : 3;
    for (let i = 0; i <= ticks; ++i) {
      const ms = view.from + ((view.to - view.from) * i) / ticks;
      picture.append(svg("text", { x: x(ms), y: 14, class: "soft",
        "text-anchor": i === ticks ? "end" : i ? "middle" : "start" }, time(ms)));
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

  const msAt = (event) => {
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
    zoom(event.deltaY > 0 ? 1.25 : 0.8, msAt(event));
  }, { passive: false });
  picture.addEventListener("dblclick", (event) => zoom(0.4, msAt(event)));
  let held = null;
  picture.addEventListener("pointerdown", (event) => { held = msAt(event); });
  picture.addEventListener("pointermove", (event) => {
    if (held === null || !event.buttons) return;
    const by = held - msAt(event);
    look(view.from + by, view.to + by);
  });
  picture.addEventListener("pointerup", () => { held = null; });

  function choose(index) {
    step = data.pictures[index];
    span = Math.max(...step.ranks.map((rank) => rank.to), 1e-6);
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
      "On top of a rank: ", colour("mark", "its spans"), " and ",
      colour("pass", "passes of training"), ", with their names. Beside its name: ",
      colour("p0", "outside Ronde"), ", ", colour("p1", "blocked"), ". Below: its bundles, ",
      colour("agreeing", "until the data moves"), " and ", colour("moving", "while it does"),
      ". Drag, or hold Ctrl and turn the wheel."),
    picture, said, list);
  choose(0);
  window.addEventListener("resize", draw);
}
