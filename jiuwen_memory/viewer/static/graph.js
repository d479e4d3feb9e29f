// The drawing, by Cytoscape, once every entity has its place.

const SHAPES = {
  ellipse: null,
  "round-rectangle": "1,3 15,3 15,13 1,13",
  diamond: "8,0 16,8 8,16 0,8",
  hexagon: "4,1 12,1 16,8 12,15 4,15 0,8",
  triangle: "8,1 16,15 0,15",
  pentagon: "8,0 16,6 13,16 3,16 0,6",
  star: "8,0 10,6 16,6 11,10 13,16 8,12 3,16 5,10 0,6 6,6",
  octagon: "5,0 11,0 16,5 16,11 11,16 5,16 0,11 0,5",
};
const COLOURS = ["#3b82c4", "#d9652b", "#2a9d78", "#c56aa0", "#d39b1d", "#58a9c9", "#8268b8", "#8d7443", "#7b8794"];
const INK = {
  light: { text: "#1d2329", ground: "#fbfbf9", edge: "#8b96a2", accent: "#0b5cad" },
  dark: { text: "#e6e9ec", ground: "#14181d", edge: "#6f7b88", accent: "#7db8f5" },
};

const countByType = new Map();
for (const each of data.entities) countByType.set(each.type ?? "", (countByType.get(each.type ?? "") ?? 0) + 1);
const types = [...countByType.keys()].sort((one, other) => countByType.get(other) - countByType.get(one));
const lookOf = (type) => {
  const number = types.indexOf(type ?? "");
  const shapes = Object.keys(SHAPES);
  return { shape: shapes[number % shapes.length], colour: COLOURS[number % COLOURS.length] };
};

const MANY = 400;
const LANDMARKS = 24;
const NAMED = 120;
const FONT = 'system-ui, "Noto Sans", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif';
const isLarge = data.entities.length > MANY || data.facts.length > 2 * MANY;
const edges = data.facts.filter((each) => each.from !== each.to);
const degree = (entity) => (factsOf.get(entity.id) ?? []).length;
const sizeOf = (entity) => Math.min(64, 18 + 5 * Math.sqrt(degree(entity)));
const byDegree = [...data.entities].sort((one, other) => degree(other) - degree(one));

// The best linked of a large graph, as far as they lie apart enough to be named side by side when all is in view.
function landmarksOf(places, { zoom }) {
  const kept = [];
  for (const { id } of isLarge ? byDegree : []) {
    const { x, y } = places.get(id);
    const isApart = (other) => Math.abs(other.x - x) * zoom > 120 || Math.abs(other.y - y) * zoom > 20;
    if (kept.length < LANDMARKS && kept.every(isApart)) kept.push({ id, x, y });
  }
  return new Set(kept.map((each) => each.id));
}

function makeGraph(container, places, theme, chosen) {
  const landmarks = landmarksOf(places, viewOf([...places.values()], container.clientWidth, container.clientHeight));
  const cy = cytoscape({
    container,
    layout: { name: "preset", fit: false },
    minZoom: 0.02,
    maxZoom: 4,
    boxSelectionEnabled: false,
    hideEdgesOnViewport: isLarge,
    textureOnViewport: isLarge,
    pixelRatio: isLarge ? 1 : "auto",
    style: stylesheet(INK[theme]),
    elements: [...data.entities.map((each) => nodeOf(each, places, landmarks)), ...edges.map(edgeOf)],
  });
  const elements = new Map(cy.elements().map((each) => [each.id(), each]));
  cy.on("tap", "node, edge", (event) => chosen(event.target.id()));
  cy.on("tap", (event) => event.target === cy && chosen(null));
  if (isLarge) nameWhatIsInView(cy);
  const fit = (ids) => fitOn(cy, elements, ids);
  fit();
  return {
    cy,
    fit,
    paint: (name) => cy.style().fromJson(stylesheet(INK[name])).update(),
    show: () => showOn(cy, elements),
    choose: (id) => chooseOn(cy, id),
  };
}

const short = (text, length) => ([...(text ?? "")].length > length ? `${[...text].slice(0, length - 1).join("")}…` : (text ?? ""));

// A name stands on the side where fewer facts lead to, so that it hides no arrow's head.
const isNamedAbove = (entity, places) => {
  const { y } = places.get(entity.id);
  const lean = (fact) => Math.sign(places.get(fact.from).y + places.get(fact.to).y - 2 * y);
  return (factsOf.get(entity.id) ?? []).reduce((sum, fact) => sum + lean(fact), 0) > 0;
};

const nodeOf = (entity, places, landmarks) => ({
  group: "nodes",
  position: places.get(entity.id),
  data: { id: entity.id, label: short(entity.name, 40), size: sizeOf(entity), ...lookOf(entity.type) },
  classes: [landmarks.has(entity.id) && "landmark", entity.merged && "merged", !isLarge && isNamedAbove(entity, places) && "above"].filter(Boolean),
});

const edgeOf = (fact) => ({
  group: "edges",
  data: { id: fact.id, source: fact.from, target: fact.to, label: short(fact.name || kindName(fact.kind), 40), width: (isLarge ? 2.5 : 1.2) + Math.log2(fact.count ?? 1) },
  classes: [isPast(fact) && "past", fact.kind !== "fact" && "link"].filter(Boolean),
});

// In a large graph only chosen facts have arrows and names, and only landmarks and what is in view are named.
function stylesheet(ink) {
  const text = { label: "data(label)", color: ink.text, "font-family": FONT, "text-outline-color": ink.ground, "text-outline-width": 2 };
  const named = { ...text, "font-size": 12, "min-zoomed-font-size": 7, "text-valign": "bottom", "text-margin-y": 4, "text-wrap": "ellipsis", "text-max-width": 160 };
  const arrow = { ...text, "font-size": 10, "min-zoomed-font-size": 7, "text-rotation": "autorotate", "target-arrow-shape": "triangle", "target-arrow-color": ink.edge, "arrow-scale": 0.8 };
  const line = { width: "data(width)", "line-color": ink.edge };
  return [
    { selector: "node", style: { ...(isLarge ? {} : named), shape: "data(shape)", "background-color": "data(colour)", width: "data(size)", height: "data(size)", "border-width": 1, "border-color": ink.text, "border-opacity": 0.55 } },
    { selector: "node.merged", style: { "border-style": "double", "border-width": 5, "border-opacity": 1 } },
    { selector: "edge", style: { ...line, ...(isLarge ? { "curve-style": "haystack", "haystack-radius": 0.3, opacity: 0.45 } : { ...arrow, "curve-style": "bezier", opacity: 0.9 }) } },
    { selector: "edge.past", style: { "line-style": "dashed", "line-dash-pattern": [6, 4] } },
    { selector: "edge.link", style: { "line-style": "dotted" } },
    { selector: "node.named", style: named },
    { selector: "node.landmark", style: { ...named, "min-zoomed-font-size": 0, "font-weight": "bold", "text-wrap": "none", "z-index": 4 } },
    { selector: ".faded", style: { opacity: 0.25 } },
    { selector: ".dim", style: { opacity: 0.12, "text-opacity": 0 } },
    { selector: "edge.near", style: { ...arrow, "curve-style": isLarge ? "straight" : "bezier", opacity: 1, "line-color": ink.accent, "target-arrow-color": ink.accent, "z-index": 5 } },
    { selector: "node.near", style: { ...named, opacity: 1, "z-index": 6 } },
    { selector: "node.above", style: { "text-valign": "top", "text-margin-y": -4 } },
    { selector: "node.chosen", style: { "border-color": ink.accent, "border-width": 5, "border-opacity": 1 } },
    { selector: "edge.chosen", style: { width: 5 } },
    { selector: ".off", style: { display: "none" } },
  ];
}

// The best-linked nodes keep their names at any zoom, so that a large graph has places to start from; the others in
// view are named from close by.
function nameWhatIsInView(cy) {
  let waiting = 0;
  const name = () => {
    const { x1, y1, x2, y2 } = cy.extent();
    const isNear = cy.zoom() > 0.45;
    const inView = isNear ? cy.nodes().filter((each) => { const { x, y } = each.position(); return x > x1 && x < x2 && y > y1 && y < y2; }) : cy.collection();
    cy.batch(() => {
      cy.nodes(".named").not(inView).removeClass("named");
      inView.slice(0, NAMED).addClass("named");
      cy.nodes(".landmark").style("font-size", Math.max(13, 12 / cy.zoom()));
    });
  };
  cy.on("viewport", () => {
    clearTimeout(waiting);
    waiting = setTimeout(name, 80);
  });
}

// Cytoscape's own fit measures every name first, which takes seconds in a large graph.
function fitOn(cy, elements, ids = data.entities.map((each) => each.id)) {
  const places = ids.map((id) => elements.get(id)?.position()).filter(Boolean);
  cy.viewport(viewOf(places, cy.width(), cy.height()));
}

// The zoom and the shift at which all these places are in view.
function viewOf(places, width, height) {
  if (!places.length) return { zoom: 1, pan: { x: 0, y: 0 } };
  const [xs, ys] = [places.map((each) => each.x), places.map((each) => each.y)];
  const least = (values) => values.reduce((one, other) => Math.min(one, other));
  const most = (values) => values.reduce((one, other) => Math.max(one, other));
  const [left, top, right, bottom] = [least(xs), least(ys), most(xs), most(ys)];
  const room = 140;
  const zoom = Math.min(1.5, width / (right - left + room), height / (bottom - top + room));
  return { zoom, pan: { x: (width - zoom * (left + right)) / 2, y: (height - zoom * (top + bottom)) / 2 } };
}

function showOn(cy, elements) {
  cy.batch(() => {
    const lit = new Set();
    for (const fact of data.facts) {
      const visible = isFactShown(fact);
      if (visible) lit.add(fact.from).add(fact.to);
      elements.get(fact.id)?.toggleClass("off", !visible);
    }
    for (const entity of data.entities) {
      const node = elements.get(entity.id);
      node.toggleClass("off", !isEntityShown(entity));
      node.toggleClass("faded", shown.moment !== null && !lit.has(entity.id));
    }
  });
}

function chooseOn(cy, id) {
  cy.batch(() => {
    cy.elements(".dim, .near, .chosen").removeClass("dim near chosen");
    const element = id ? cy.getElementById(id) : cy.collection();
    if (element.empty()) return;
    const near = element.isNode() ? element.closedNeighborhood() : element.union(element.connectedNodes());
    cy.elements().not(near).addClass("dim");
    near.addClass("near");
    element.addClass("chosen");
  });
}
