// Draws the report from the JSON in #data. No library: SVG, tables and one picture that zooms
// (zoom.js).
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
const html = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);
const at = (id) => document.getElementById(id);

const digits = (value) => value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
function time(ms) {
  if (ms < 5e-7) return "0";
  if (ms < 1e-3) return Math.round(ms * 1e6) + " ns";
  if (ms >= 1e3) return digits(ms / 1e3) + " s";
  if (ms >= 1) return digits(ms) + " ms";
  return digits(ms * 1e3) + " µs";
}
function bytes(count) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["KB", 1e3]]) {
    if (count >= size) return digits(count / size) + " " + unit;
  }
  return Math.round(count) + " B";
}
const rate = (gbps) => bytes(gbps * 1e9) + "/s";
const percent = (part, whole) => (whole > 0 ? Math.round((100 * part) / whole) : 0) + " %";

// ---- Tables ------------------------------------------------------------------------------------

/** A table that sorts by its column buttons. columns: [title, format]; rows: arrays of values. */
function table(caption, columns, rows) {
  const body = html("tbody");
  const heads = columns.map(([title], column) =>
    html("th", { scope: "col" },
      html("button", { type: "button", click: () => sort(column) }, title)));
  let sorted = -1;
  let direction = -1;
  function show() {
    body.replaceChildren(...rows.map((row) =>
      html("tr", {}, ...row.map((value, i) => html("td", { "data-label": columns[i][0] }, html("span", {}, String(columns[i][1](value))))))));
  }
  function sort(column) {
    direction = sorted === column ? -direction : -1;
    sorted = column;
    const key = (row) => row[column]?.by ?? row[column];  // of a text that a number is behind
    rows.sort((a, b) => direction * (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
    heads.forEach((head, i) => {
      if (i === column) head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    show();
  }
  show();
  return html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    html("table", {}, html("caption", {}, caption),
      html("thead", {}, html("tr", {}, ...heads)), body));
}

/**
 * Keeps a picture in `parent`, which is on the page, drawn anew for each width of the page: its
 * text keeps its size.
 */
function fitted(parent, draw) {
  const box = html("div");
  parent.append(box);
  const show = () => box.replaceChildren(draw(Math.max(box.clientWidth, 260)));
  show();
  window.addEventListener("resize", show);
}

const asTable = (content) =>
  html("details", {}, html("summary", {}, "Show as a table"), content);
const asIs = (value) => value, asText = (value) => value.text;

// ---- Stacked bars ------------------------------------------------------------------------------

const phaseNames = data.phases.map(([, name]) => name);
const phasesOf = (times) => data.phases.map(([key]) => times[key]);

/** Titles of the parts that are not empty: what a screen reader hears of a bar. */
function spoken(label, whole, parts) {
  const named = parts.map((part, i) => [phaseNames[i], part]).filter(([, part]) => part > 0);
  return label + ": " + time(whole) + " – " +
    named.map(([name, part]) => name + " " + percent(part, whole)).join(", ");
}

function splitPicture(whole) {
  const row = 26, left = 80, width = whole - left - 80, height = data.ranks.length * row + 10;
  const longest = Math.max(...data.ranks.map((rank) => rank.step_ms), 1e-9);
  const picture = svg("svg", { viewBox: `0 0 ${whole} ${height}`, role: "img",
    "aria-label": "Time per " + data.unit + " of each rank, by what its training thread did" });
  data.ranks.forEach((rank, i) => {
    const label = rank.label;
    const group = svg("g", {}, svg("title", {}, spoken(label, rank.step_ms, phasesOf(rank))));
    group.append(svg("text", { x: 8, y: i * row + 21 }, label));
    let x = left;
    phasesOf(rank).forEach((part, phase) => {
      const wide = (part / longest) * width;
      group.append(svg("rect",
        { x, y: i * row + 7, width: wide, height: row - 6, class: "p" + phase }));
      x += wide;
    });
    group.append(svg("text", { x: x + 6, y: i * row + 21, class: "soft" }, time(rank.step_ms)));
    picture.append(group);
  });
  return picture;
}

function splitChart() {
  const columns = [["rank", asIs], ["host", asIs], ["in all", time],
    ...phaseNames.map((name) => [name, time]), ["moving", time], ["overlapped", time],
    ["ready without a core", time]];
  const rows = data.ranks.map((rank) =>
    [rank.rank, rank.host, rank.step_ms, ...phasesOf(rank), rank.moving_ms, rank.overlapped_ms,
      rank.without_core_ms]);
  fitted(at("split"), splitPicture);
  at("split").append(asTable(table("Time per " + data.unit, columns, rows)));
}

const labelOf = (bar) => bar.first === bar.last ? String(bar.first) : bar.first + " to " + bar.last;

function barPicture(width) {
  const height = 220, left = 60;
  const longest = Math.max(...data.bars.map((bar) => bar.step_ms), 1e-9);
  const wide = (width - left) / Math.max(data.bars.length, 1);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height + 24}`, role: "img",
    "aria-label": "Mean over ranks of each " + data.unit + ", by what training threads did" });
  for (const share of [0, 0.5, 1]) {
    const y = height - share * (height - 12);
    picture.append(svg("line", { x1: left, x2: width, y1: y, y2: y, class: "grid" }),
      svg("text", { x: 4, y: y + 4, class: "soft" }, time(longest * share)));
  }
  data.bars.forEach((bar, i) => {
    const group = svg("g", {}, svg("title", {},
      spoken(data.unit + " " + labelOf(bar), bar.step_ms, phasesOf(bar))));
    let y = height;
    phasesOf(bar).forEach((part, phase) => {
      const tall = (part / longest) * (height - 12);
      y -= tall;
      const shown = Math.max(wide - (wide > 3 ? 1 : 0), 0.5);
      group.append(svg("rect",
        { x: left + i * wide, y, width: shown, height: tall, class: "p" + phase }));
    });
    picture.append(group);
  });
  const label = (x, bar, anchor) => bar && picture.append(svg("text",
    { x, y: height + 18, class: "soft", "text-anchor": anchor }, labelOf(bar)));
  label(left, data.bars.at(0), "start");
  label(width - 4, data.bars.at(-1), "end");
  return picture;
}

function barChart() {
  const columns = [[data.unit, asIs], ["mean", time], ...phaseNames.map((name) => [name, time])];
  fitted(at("bars"), barPicture);
  at("bars").append(asTable(table("Over time", columns,
    data.bars.map((bar) => [labelOf(bar), bar.step_ms, ...phasesOf(bar)]))));
}

function legend() {
  at("legend").append(...phaseNames.map((name, i) =>
    html("span", {}, html("i", { class: "p" + i }), name)));
}

// ---- Histograms --------------------------------------------------------------------------------

/** From the first to the last count that is not 0, and which the first is. */
function shownCounts(counts) {
  const first = Math.max(counts.findIndex((count) => count > 0), 0);
  const last = counts.length - 1 - [...counts].reverse().findIndex((count) => count > 0);
  return { first, shown: counts.slice(first, Math.max(last, first) + 1) };
}

const edgeOf = (index, unit) =>
  (index === 0 ? 0 : unit * [1, 2, 5][index % 3] * 10 ** Math.floor(index / 3));

/** A round time, as "20 ms". */
function edge(us) {
  if (us === 0) return "0";
  const [unit, size] = us >= 1e6 ? ["s", 1e6] : us >= 1e3 ? ["ms", 1e3] : ["µs", 1];
  return us / size + " " + unit;
}

function histogramPicture(width, { title, unit, counts }) {
  const height = 150, base = 120;
  const { first, shown } = shownCounts(counts);
  const most = Math.max(...shown, 1);
  const left = 20 + 8 * most.toLocaleString("en").length;
  const wide = Math.min((width - left - 30) / shown.length, 120);
  const picture = svg("svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  shown.forEach((count, i) => {
    const tall = (count / most) * (base - 15);
    const from = edge(edgeOf(first + i, unit)), to = edge(edgeOf(first + i + 1, unit));
    picture.append(svg("rect", { x: left + i * wide, y: base - tall, width: Math.max(wide - 2, 1),
      height: tall, class: "p0" }, svg("title", {}, `${from} to ${to}: ${count}`)));
  });
  const room = 62;  // for a label, in pixels
  const every = Math.max(1, Math.ceil(room / wide));
  for (let i = 0; i <= shown.length; i += every) {
    const x = left + i * wide;
    const anchor = x + room / 2 > width ? "end" : "middle";
    picture.append(svg("line", { x1: x, x2: x, y1: base, y2: base + 4, class: "grid" }),
      svg("text", { x, y: base + 18, class: "soft", "text-anchor": anchor },
        edge(edgeOf(first + i, unit))));
  }
  for (const count of most > 1 ? [0, most] : [most]) {
    const y = base - (count / most) * (base - 15);
    picture.append(svg("line", { x1: left, x2: width, y1: y, y2: y, class: "grid" }),
      svg("text", { x: left - 6, y: y + 4, class: "soft", "text-anchor": "end" },
        count.toLocaleString("en")));
  }
  return picture;
}

function histogramChart(one) {
  const { first, shown } = shownCounts(one.counts);
  const rows = shown.map((count, i) =>
    [edgeOf(first + i, one.unit), edgeOf(first + i + 1, one.unit), count]);
  const whole = html("div", {}, html("h3", {}, one.title));
  at("histograms").append(whole);
  fitted(whole, (width) => histogramPicture(width, one));
  whole.append(asTable(table(one.title, [["from", edge], ["to", edge], ["count", asIs]], rows)));
}

// ---- The page ----------------------------------------------------------------------------------

function head() {
  const mean = data.mean;
  at("summary").textContent =
    `${data.size} ranks, ${data.steps} ${data.unit}s of ${time(mean.step_ms)} on average, ` +
    `${data.events.toLocaleString("en")} events. Data moves for ${time(mean.moving_ms)} per ` +
    `${data.unit}, of which ${time(mean.overlapped_ms)} overlaps with time outside Ronde.`;
  for (const finding of data.findings) {
    const item = html("li",
      { "data-cause": finding.cause, "data-rank": finding.rank ?? -1 }, finding.text);
    if (finding.advice) item.append(html("span", { class: "advice" }, finding.advice));
    at("findings").append(item);
  }
  if (data.stepsNote && data.steps) data.notes.push(data.stepsNote);
  for (const note of data.notes) at("notes").append(html("li", {}, note));
}

function costs() {
  const fusion = data.fusion;
  at("fusion").textContent =
    `${digits(fusion.tensors)} tensors travel in ${digits(fusion.bundles)} bundles per ` +
    `${data.unit}; half of the bundles hold ${bytes(fusion.medianBytes)} or more.` +
    (fusion.efficiency < 0 ? "" :
    ` Fusion efficiency: ${Math.round(100 * fusion.efficiency)} % of the moving goes by bytes, ` +
    "the rest by bundles.");
  at("paths").append(table("Paths", [["collective, algorithm, data plane", asIs], ["bundles", asIs],
    ["tensors", asIs], ["bytes", bytes], ["moving", time], ["bus", rate],
    ["best", rate]], data.paths.map((path) => [path.path, path.bundles, path.tensors, path.bytes,
    path.moving_ms, path.bus_gbps, path.best_gbps])), html("p", { class: "quiet" }, data.bandwidthNote));
  at("tensors").append(table("Tensors, mean of an operation", [["tensor", asIs], ["times", asIs],
    ["bytes", bytes], ["negotiating", time], ["moving", time]], data.tensors.map((tensor) =>
    [tensor.name, tensor.count, tensor.bytes / tensor.count, tensor.negotiation_ms / tensor.count,
      tensor.moving_ms / tensor.count])));
  at("bundles").append(table("Bundles that moved longest", [["bundle", asIs], ["tensors", asIs],
    ["bytes", bytes], ["first to last rank", time], ["last rank", asIs], ["moving", time]],
    data.bundles));
}

function whatIfs() {
  at("model").textContent = data.costModel + (data.what_if.length ? "" :
    " No change that is known here would save 1 %.");
  if (!data.what_if.length) return;
  at("changes").append(table("Changes, and what they would save of a " + data.unit,
    [["change", asIs], ["share", asText], ["saves", asText]],
    data.what_if.map((one) => [one.change, { text: one.share_text, by: one.saved_ms },
      { text: one.time_text, by: one.saved_ms }])));
}

/** The user's spans and the passes of training, by rank. */
function spans() {
  if (!data.spans.length) return;
  at("spans-part").hidden = false;
  const share = (ms) => percent(ms, data.mean.step_ms);
  const rows = [...data.spans, { name: "(outside, in no span)", own_ms: data.unmarked_ms }];
  at("spans").append(table("Spans of each rank", [["span", asIs], ["mean of ranks", time],
    ["share of a " + data.unit, share], ...data.ranks.map((rank) => [rank.label, time])],
    rows.map(({ name, own_ms: own }) => {
      const mean = own.reduce((sum, one) => sum + one, 0) / own.length;
      return [name, mean, mean, ...own];
    })));
}

/** The stages of a pipeline. */
function pipeline() {
  if (!data.pipeline) return;
  const { stages, slowest, bubble, schedule } = data.pipeline;
  at("pipeline-part").hidden = false;
  at("bubble").textContent = `${percent(bubble, 1)} of each ${data.unit} is bubble, ` +
    `${percent(schedule, 1)} by the schedule. Stage ${slowest} is idle least.`;
  at("stages").append(table("Stages, mean of a " + data.unit, [["stage", asIs], ["ranks", asIs],
    ["works", time], ["is idle", time]], stages.map((stage, i) =>
    [i, stage.ranks.join(", "), stage.work_ms, stage.idle_ms])));
}

/** The epochs of an elastic job. */
function epochs() {
  if (!data.epochs.length) return;
  at("epochs-part").hidden = false;
  at("epochs").append(table("Epochs, and what the way to each cost", [["epoch", asIs],
    ["start", time], ["length", time], ["ranks", asIs], ["why it began", asIs], ["way to it", asIs],
    ["took", time], ["work lost", time], ["steps lost", asIs]], data.epochs));
}

head();
epochs();
legend();
if (data.steps) {
  whatIfs();
  splitChart();
  pipeline();
  spans();
  barChart();
  zoomable();
}
costs();
data.histograms.forEach(histogramChart);
document.documentElement.dataset.drawn = "yes";
