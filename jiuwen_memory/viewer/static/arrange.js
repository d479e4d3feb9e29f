// Where the entities are: d3-force arranges, in slices, so that the page answers meanwhile and shows how far it is.

const GAP = 55;

// Gives every entity of a large graph a first place, from which the forces need a third of the steps: a tree of shortest
// paths from the best linked entity of each part, with every branch in a sector of its size, on rings of equal density.
function spread(nodes) {
  const next = new Map(nodes.map((each) => [each.id, []]));
  for (const { from, to } of edges) {
    next.get(from).push(to);
    next.get(to).push(from);
  }
  const [order, parent, depth] = [[], new Map(), new Map()];
  const reach = (id, from) => {
    if (parent.has(id)) return;
    parent.set(id, from);
    depth.set(id, from === null ? 0 : depth.get(from) + 1);
    order.push(id);
  };
  for (let done = 0, root = 0; root < byDegree.length; root += 1) {
    reach(byDegree[root].id, null);
    for (; done < order.length; done += 1) for (const other of next.get(order[done])) reach(other, order[done]);
  }
  const weight = new Map(order.map((id) => [id, 1]));
  for (const id of [...order].reverse()) if (parent.get(id) !== null) weight.set(parent.get(id), weight.get(parent.get(id)) + weight.get(id));
  const radii = radiiOf(order.map((id) => depth.get(id)));
  const [places, begins] = [new Map(), new Map([[null, 0]])];
  for (const id of order) {
    const [begin, width] = [begins.get(parent.get(id)), (2 * Math.PI * weight.get(id)) / order.length];
    begins.set(parent.get(id), begin + width);
    begins.set(id, begin);
    const [angle, radius] = [begin + width / 2, radii[depth.get(id)]];
    places.set(id, { x: radius * Math.cos(angle), y: radius * Math.sin(angle) });
  }
  for (const each of nodes) Object.assign(each, places.get(each.id));
}

// The radius of each ring, so that everything is equally far apart.
function radiiOf(depths) {
  const counts = [];
  for (const each of depths) counts[each] = (counts[each] ?? 0) + 1;
  let within = 0;
  return counts.map((count) => {
    within += count;
    return GAP * Math.sqrt(within - count / 2);
  });
}

// Calls back with the place of every entity, and meanwhile with how far it is (0 to 1) and the places so far.
function arrange(tell, finish) {
  const nodes = data.entities.map((each) => ({ id: each.id, r: sizeOf(each) / 2 }));
  if (isLarge) spread(nodes);
  const ticks = isLarge ? Math.round(Math.max(30, Math.min(60, 80_000 / nodes.length))) : 300;
  const force = d3
    .forceSimulation(nodes)
    .force("links", d3.forceLink(edges.map((each) => ({ source: each.from, target: each.to }))).id((each) => each.id).distance(isLarge ? 110 : 200))
    .force("apart", d3.forceManyBody().strength(-420).theta(isLarge ? 1.5 : 0.9).distanceMax(1500))
    .force("x", d3.forceX().strength(0.05))
    .force("y", d3.forceY().strength(0.07))
    .alphaDecay(1 - Math.pow(0.001, 1 / ticks))
    .stop();
  let done = 0;
  const go = () => {
    const began = performance.now();
    while (done < ticks && performance.now() - began < 40) {
      // Room for each is made last, when it costs the fewest moves.
      if (done === Math.round(0.7 * ticks)) force.force("room", d3.forceCollide((each) => each.r + 12).strength(0.6));
      force.tick();
      done += 1;
    }
    tell(done / ticks, nodes);
    if (done < ticks) setTimeout(go, 0);
    // Time for what was told last to be seen: the real drawing keeps the page busy for a while.
    else setTimeout(() => finish(new Map(nodes.map(({ id, x, y }) => [id, { x, y }]))), 30);
  };
  go();
}
