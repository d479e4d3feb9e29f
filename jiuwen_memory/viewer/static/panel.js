// What is said in words: the legend, the list, the results of a search, and the panel about one entity or fact.
// Everything from the memory goes into text nodes, nowhere else.

function make(tag, { className, dir, label, onclick } = {}, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (dir) element.dir = dir;
  if (label) element.setAttribute("aria-label", label);
  if (onclick) element.addEventListener("click", onclick);
  element.append(...children.filter((each) => each !== null && each !== undefined && each !== ""));
  return element;
}
const told = (tag, text, className) => make(tag, { className, dir: "auto" }, String(text));

function swatch(type) {
  const { shape, colour } = lookOf(type);
  const points = SHAPES[shape];
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "-1 -1 18 18");
  svg.setAttribute("aria-hidden", "true");
  const drawn = document.createElementNS(svg.namespaceURI, points ? "polygon" : "circle");
  const given = points ? { points, fill: colour } : { cx: 8, cy: 8, r: 7, fill: colour };
  for (const [name, value] of Object.entries(given)) drawn.setAttribute(name, value);
  svg.append(drawn);
  return svg;
}

const entityItem = (entity, choose) =>
  make("button", { className: "item", onclick: () => choose(entity.id) }, told("span", entity.name), " ", told("small", typeName(entity.type)));

function factItem(fact, choose) {
  const details = [period(fact), isPast(fact) ? say(stateOf(fact)) : "", fact.count > 1 ? `${fact.count}×` : ""].filter(Boolean).join(" · ");
  const className = isPast(fact) ? "item past" : "item";
  return make("button", { className, onclick: () => choose(fact.id) }, told("span", fact.text || kindName(fact.kind)), " ", told("small", details));
}

// A list that grows on demand: thousands of buttons at once would make every page slow.
function fill(list, items, itemOf, step = 50, from = 0) {
  if (!from) list.replaceChildren();
  const part = items.slice(from, from + step);
  list.append(...part.map((each) => make("li", {}, itemOf(each))));
  const rest = items.length - from - part.length;
  if (rest <= 0) return;
  const more = make("li", {}, make("button", { onclick: () => {
    const before = list.children.length - 1;
    more.remove();
    fill(list, items, itemOf, step, from + step);
    list.children[before]?.querySelector("button")?.focus();
  } }, say("more", { count: rest })));
  list.append(more);
}

function listed(title, items, itemOf, step) {
  if (!items.length) return [];
  const list = make("ul");
  fill(list, items, itemOf, step);
  return [make("h3", {}, title), list];
}

function quote(episode) {
  const about = [time(episode.at), (episode.speakers ?? []).join(", "), episode.source, episode.session && say("session", { session: episode.session })];
  return make("figure", {}, told("blockquote", episode.text ?? ""), told("figcaption", about.filter(Boolean).join(" · ")));
}

function quotes(thing) {
  const found = quotesOf(thing).sort((one, other) => (other.at?.at ?? 0) - (one.at?.at ?? 0));
  return found.length ? listed(say("episodes"), found, quote, 10) : [make("h3", {}, say("episodes")), told("p", say("no_episodes"), "meta")];
}

function counted(thing) {
  const parts = [say("mentioned", { count: thing.count ?? 1 })];
  if (thing.first && thing.last) {
    const [first, last] = [time(thing.first), time(thing.last)];
    parts.push(first === last ? first : say("first_last", { first, last }));
  }
  if (thing.sources) parts.push(say("from_sources", { sources: thing.sources.join(", ") }));
  return told("p", parts.join(" · "), "meta");
}

function values(title, entries) {
  if (!entries) return [];
  const shownAs = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));
  return [make("h3", {}, title), make("dl", {}, ...Object.entries(entries).flatMap(([name, value]) => [told("dt", name), told("dd", shownAs(value))]))];
}

function entityPanel(entity, choose) {
  const own = (factsOf.get(entity.id) ?? []).filter(isFactShown);
  const merged = (each) => make("div", {}, told("span", each.name), " ", told("small", [typeName(each.type), each.at && time(each.at)].filter(Boolean).join(" · "), "meta"), each.about ? told("p", each.about, "meta") : "");
  return [
    told("h2", entity.name),
    make("p", { className: "meta" }, swatch(entity.type), " ", told("span", typeName(entity.type))),
    entity.about ? told("p", entity.about) : "",
    entity.aliases ? told("p", `${say("also")}: ${entity.aliases.join(" · ")}`, "meta") : "",
    counted(entity),
    ...values(say("attributes"), entity.attributes),
    ...listed(say("merged"), entity.merged ?? [], merged),
    ...listed(`${say("facts_of")} (${own.length})`, own, (each) => factItem(each, choose), 30),
    ...quotes(entity),
  ];
}

function factPanel(fact, choose) {
  const [from, to] = [entities.get(fact.from), entities.get(fact.to)];
  const known = (ids) => ids.map((id) => facts.get(id)).filter(Boolean);
  const link = ([each, other]) => make("div", {}, told("small", kindName(each.kind), "meta"), factItem(facts.get(other), choose));
  return [
    told("h2", fact.text || fact.name || kindName(fact.kind)),
    make("p", { className: "meta" }, make("span", { className: "badge" }, say(stateOf(fact))), told("span", period(fact) || say("unknown_time"))),
    told("p", fact.kind === "fact" ? (fact.name ?? "") : kindName(fact.kind), "meta"),
    entityItem(from, choose),
    from === to ? told("p", say("about_itself"), "meta") : make("span", {}, "→ ", entityItem(to, choose)),
    counted(fact),
    ...values(say("attributes"), fact.qualifiers),
    ...listed(say("replaced_by"), known(fact.by ?? []), (each) => factItem(each, choose)),
    ...listed(say("replaces"), known(replaced.get(fact.id) ?? []), (each) => factItem(each, choose)),
    ...listed(say("linked"), linked.get(fact.id) ?? [], link),
    ...quotes(fact),
  ];
}

function showPanel(panel, id, choose) {
  const hint = () => [told("p", say(data.entities.length ? "hint" : "empty"), "meta")];
  const content = entities.has(id) ? entityPanel(entities.get(id), choose) : facts.has(id) ? factPanel(facts.get(id), choose) : hint();
  const close = id ? make("button", { className: "close", onclick: () => choose(null) }, say("close")) : "";
  panel.replaceChildren(...[...content, close].filter((each) => each !== ""));
  panel.scrollTop = 0;
}
