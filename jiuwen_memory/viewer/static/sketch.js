// While the drawing is being arranged: dots and lines on a plain canvas, which cost a fraction of the real drawing.

const PAUSE = matchMedia("(prefers-reduced-motion: reduce)").matches ? Infinity : 250;

function makeSketch(container, theme) {
  const canvas = make("canvas", { className: "sketch" });
  container.append(canvas);
  const numbers = new Map(data.entities.map((each, number) => [each.id, number]));
  const lines = edges.map((each) => [numbers.get(each.from), numbers.get(each.to)]);
  const byColour = new Map();
  data.entities.forEach((each, number) => listOf(byColour, lookOf(each.type).colour).push(number));
  let drawn = -Infinity;

  // `nodes` have x, y and r, in the order of the entities.
  const draw = (nodes, { always = false } = {}) => {
    if (!always && performance.now() - drawn < PAUSE) return;
    const { width, height } = container.getBoundingClientRect();
    const { zoom, pan } = viewOf(nodes, width, height);
    const dots = nodes.map(({ x, y, r }) => ({ x: x * zoom + pan.x, y: y * zoom + pan.y, r: r * zoom }));
    Object.assign(canvas, { width, height });
    const paper = canvas.getContext("2d");
    paper.strokeStyle = INK[theme()].edge;
    paper.globalAlpha = isLarge ? 0.45 : 0.9;
    // One by one: a path of thousands of lines takes thrice as long.
    for (const [from, to] of lines) {
      paper.beginPath();
      paper.moveTo(dots[from].x, dots[from].y);
      paper.lineTo(dots[to].x, dots[to].y);
      paper.stroke();
    }
    paper.globalAlpha = 1;
    for (const [colour, members] of byColour) {
      paper.fillStyle = colour;
      paper.beginPath();
      for (const { x, y, r } of members.map((number) => dots[number])) {
        paper.moveTo(x + r, y);
        paper.arc(x, y, r, 0, 2 * Math.PI);
      }
      paper.fill();
    }
    if (drawn < 0) performance.mark("sketched");
    drawn = performance.now();
  };
  return { draw, remove: () => canvas.remove() };
}
