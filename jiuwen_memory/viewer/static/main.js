// Ties the parts together and answers the reader.

const get = (id) => document.getElementById(id);
const panel = get("panel");
let chosen = null;
let drawing = null;

function choose(id, { focus = true } = {}) {
  chosen = id;
  drawing?.choose(id);
  showPanel(panel, id, (other) => choose(other));
  get("found").hidden = true;
  if (focus && id) panel.focus({ preventScroll: window.innerWidth > 900 });
  if (focus && !id) (get("list").hidden ? get("graph") : get("list")).focus();
}

function refresh() {
  drawing?.show();
  const visible = { entities: data.entities.filter(isEntityShown), facts: data.facts.filter(isFactShown) };
  const counts = { entities: visible.entities.length, facts: visible.facts.length };
  get("counts").textContent = say("counts", counts);
  get("graph").setAttribute("aria-label", say("graph", counts));
  const moment = data.moments[get("moment").value];
  const isNow = moment.at === data.written.at;
  const text = shown.moment === null ? say("at_all_times") : time(moment) + (isNow ? ` (${say("now")})` : "");
  get("moment-text").textContent = text;
  get("moment").setAttribute("aria-valuetext", text);
  if (!get("list").hidden) {
    fill(get("list-entities"), visible.entities, (each) => entityItem(each, choose), 100);
    fill(get("list-facts"), visible.facts, (each) => factItem(each, choose), 100);
  }
  showPanel(panel, chosen, (other) => choose(other));
}

function speak() {
  document.documentElement.lang = say("tag");
  for (const each of document.querySelectorAll("[data-word]")) each.textContent = say(each.dataset.word);
  for (const each of document.querySelectorAll("[data-label]")) each.setAttribute("aria-label", say(each.dataset.label));
  for (const each of document.querySelectorAll("[data-placeholder]")) each.placeholder = say(each.dataset.placeholder);
  const left = data.left_out;
  get("left-out").textContent = left.entities || left.facts ? say("left_out", left) : "";
  get("written").textContent = say("written", { time: time(data.written) });
  get("legend").replaceChildren(...types.map((type) => {
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = shown.types.has(type);
    box.addEventListener("change", () => { shown.types[box.checked ? "add" : "delete"](type); refresh(); });
    return make("li", {}, make("label", {}, box, swatch(type), told("span", typeName(type)), make("span", { className: "n" }, String(countByType.get(type)))));
  }));
}

function search() {
  const hits = find(get("query").value);
  get("found").hidden = !get("query").value.trim();
  get("found-count").textContent = hits.length ? say("found", { count: hits.length }) : say("found_none");
  fill(get("found-items"), hits, ({ kind, each }) => (kind === "entity" ? entityItem(each, seek) : factItem(each, seek)), 20);
  return hits;
}

// Goes to what was found, also if it is out of sight.
function seek(id) {
  choose(id);
  const fact = facts.get(id);
  const around = fact ? [fact.from, fact.to] : [id, ...(factsOf.get(id) ?? []).flatMap((each) => [each.from, each.to])];
  drawing?.fit(around);
}

// From the chosen node to the visible neighbour that lies most nearly in the direction of the key.
function step(key) {
  const direction = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key];
  if (!drawing) return;
  const here = chosen && drawing.cy.getElementById(chosen);
  if (!here || here.empty() || !here.isNode()) {
    if (byDegree.length) choose(byDegree[0].id, { focus: false });
    return;
  }
  const at = here.position();
  const score = (node) => {
    const [x, y] = [node.position("x") - at.x, node.position("y") - at.y];
    return (x * direction[0] + y * direction[1]) / (Math.hypot(x, y) || 1);
  };
  const best = here.neighborhood("node:visible").sort((one, other) => score(other) - score(one))[0];
  if (best && score(best) > 0) choose(best.id(), { focus: false });
}

const dark = matchMedia("(prefers-color-scheme: dark)");
let theme = null;
function paint() {
  const name = theme ?? (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = name;
  drawing?.paint(name);
}

function listen() {
  get("always").addEventListener("change", () => { shown.moment = get("always").checked ? null : data.moments[get("moment").value].at; refresh(); });
  get("moment").addEventListener("input", () => { get("always").checked = false; shown.moment = data.moments[get("moment").value].at; refresh(); });
  for (const name of ["past", "links"]) get(name).addEventListener("change", () => { shown[name] = get(name).checked; refresh(); });
  get("query").addEventListener("input", search);
  get("query").addEventListener("focus", search);
  get("search").addEventListener("submit", (event) => { event.preventDefault(); const [best] = search(); if (best) seek(best.each.id); });
  get("language").addEventListener("click", () => {
    const known = Object.keys(data.words);
    language = known[(known.indexOf(language) + 1) % known.length];
    speak();
    refresh();
    search();
    get("found").hidden = true;
  });
  get("theme").addEventListener("click", () => { theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark"; paint(); });
  dark.addEventListener("change", paint);
  get("view").addEventListener("click", () => showList(get("list").hidden));
  get("skip").addEventListener("click", (event) => { event.preventDefault(); showList(true); get("list").focus(); });
  get("zoom-in").addEventListener("click", () => zoom(1.4));
  get("zoom-out").addEventListener("click", () => zoom(1 / 1.4));
  get("fit").addEventListener("click", () => drawing?.fit());
  get("graph").addEventListener("keydown", (event) => {
    if (event.key.startsWith("Arrow")) { event.preventDefault(); step(event.key); }
    if (event.key === "Enter" && chosen) panel.focus();
    if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.4 : 1 / 1.4);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !["INPUT", "TEXTAREA"].includes(document.activeElement?.tagName)) { event.preventDefault(); get("query").focus(); }
    if (event.key !== "Escape") return;
    if (get("found").hidden) choose(null); else { get("found").hidden = true; get("query").focus(); }
  });
  document.addEventListener("pointerdown", (event) => { if (!get("search").contains(event.target)) get("found").hidden = true; });
}

function zoom(factor) {
  if (!drawing) return;
  const { cy } = drawing;
  cy.zoom({ level: cy.zoom() * factor, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
}

function showList(wanted) {
  get("list").hidden = !wanted;
  get("zoom").hidden = wanted;
  get("graph").inert = wanted;
  get("graph").setAttribute("aria-hidden", String(wanted));
  get("view").setAttribute("aria-pressed", String(wanted));
  refresh();
}

get("moment").max = data.moments.length - 1;
get("moment").value = data.moments.findIndex((each) => each.at === data.written.at);
speak();
paint();
refresh();
listen();
performance.mark("interactive");
const sketch = makeSketch(get("graph"), () => document.documentElement.dataset.theme);
arrange(
  (part, nodes) => {
    get("arranging").textContent = say("arranging", { percent: Math.round(100 * part) });
    sketch.draw(nodes, { always: part === 1 });
  },
  (places) => {
    get("arranging").hidden = true;
    performance.mark("arranged");
    drawing = makeGraph(get("graph"), places, document.documentElement.dataset.theme, (id) => choose(id, { focus: false }));
    drawing.show();
    drawing.choose(chosen);
    drawing.cy.one("render", () => {
      performance.mark("drawn");
      sketch.remove();
      get("graph").setAttribute("aria-busy", "false");
    });
  },
);
