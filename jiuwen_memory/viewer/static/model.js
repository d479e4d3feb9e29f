// What is on the page and what follows from it: who is linked with what, what held when, what a query finds.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (items) => new Map(items.map((each) => [each.id, each]));
const entities = byId(data.entities);
const facts = byId(data.facts);
const episodes = byId(data.episodes);

const listOf = (map, key) => {
  if (!map.has(key)) map.set(key, []);
  return map.get(key);
};

const factsOf = new Map();
const replaced = new Map();
const linked = new Map();
for (const fact of data.facts) {
  for (const end of new Set([fact.from, fact.to])) listOf(factsOf, end).push(fact);
  for (const later of fact.by ?? []) listOf(replaced, later).push(fact.id);
}
for (const link of data.links) {
  listOf(linked, link.from).push([link, link.to]);
  listOf(linked, link.to).push([link, link.from]);
}

// The same rule as Relation.holds_at in Python.
const holdsAt = (fact, moment) => {
  if (fact.since && moment < fact.since.at) return false;
  return fact.until ? moment <= fact.until.at : !fact.by;
};

const stateOf = (fact) => {
  const present = data.written.at;
  if (holdsAt(fact, present)) return "holds";
  if (fact.since && present < fact.since.at) return "not_yet";
  return fact.by ? "replaced" : "ended";
};
const isPast = (fact) => ["ended", "replaced"].includes(stateOf(fact));

// What the reader has chosen to see. `moment` is null for all times.
const shown = { moment: null, past: true, links: true, types: new Set(data.entities.map((each) => each.type ?? "")) };

const isEntityShown = (entity) => shown.types.has(entity.type ?? "");
const isFactShown = (fact) =>
  isEntityShown(entities.get(fact.from)) &&
  isEntityShown(entities.get(fact.to)) &&
  (shown.links || fact.kind === "fact") &&
  (shown.moment === null ? shown.past || !isPast(fact) : holdsAt(fact, shown.moment));

const folded = (text) => text.normalize("NFKC").toLowerCase();
let searchable = null;

// Entities by name first, then entities by what is said of them, facts, and facts whose source texts have the words.
function find(query) {
  const words = folded(query).split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  searchable ??= [
    ...data.entities.map((each) => [folded([each.name, ...(each.aliases ?? [])].join("\n")), "entity", each]),
    ...data.facts.map((each) => [folded(`${each.name ?? ""}\n${each.text ?? ""}`), "fact", each]),
    ...data.entities.map((each) => [folded(each.about ?? ""), "entity", each]),
    ...data.facts.map((each) => [folded(quotesOf(each).map((quote) => quote.text).join("\n")), "fact", each]),
  ];
  const hits = new Map();
  for (const [text, kind, each] of searchable) {
    if (words.every((word) => text.includes(word)) && !hits.has(each.id)) {
      hits.set(each.id, { kind, each, starts: text.startsWith(words[0]) });
    }
  }
  return [...hits.values()].sort((one, other) => other.starts - one.starts);
}

const quotesOf = (thing) => (thing.episodes ?? []).map((id) => episodes.get(id)).filter((each) => each);

let language = data.language;
const words = () => data.words[language];
const say = (name, values = {}) => words()[name].replace(/\{(\w+)\}/g, (hole, key) => values[key] ?? hole);
const time = (moment) => (moment ? moment[language] : say("unknown_time"));
const typeName = (type) => (Object.hasOwn(words().types, type) ? words().types[type] : type || words().types.Entity);
const kindName = (kind) => words().kinds[kind] ?? kind;

function period(fact) {
  if (fact.since && fact.until) return say("since_until", { since: time(fact.since), until: time(fact.until) });
  if (fact.since) return say("since", { since: time(fact.since) });
  return fact.until ? say("until", { until: time(fact.until) }) : "";
}
