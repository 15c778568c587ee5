// What stands over the picture: axes, names of jobs that have room for one, and the outline of the chosen job.

const LABELS_MOST = 3000; // pieces in sight; with more of them none is large enough for its name

function drawFront(chart, view) {
  const context = chart.front.getContext("2d");
  const { scale, width, height, ink } = chart;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, chart.front.width, chart.front.height);
  context.font = `12px ${getComputedStyle(chart.place).fontFamily}`;
  context.lineWidth = 1;
  const box = { left: GUTTER, wide: width / scale, tall: height / scale };
  timeAxis(chart, context, box);
  rowAxis(chart, context, box);
  context.save();
  context.beginPath();
  context.rect(box.left, 0, box.wide, box.tall);
  context.clip();
  context.translate(box.left, 0);
  names(chart, context, view);
  outline(chart, context, view);
  context.restore();
  context.strokeStyle = ink.soft;
  context.strokeRect(box.left + 0.5, 0.5, box.wide - 1, box.tall - 1);
}

function timeAxis(chart, context, { left, wide, tall }) {
  const tick = chart.data.tick, from = chart.from * tick, length = chart.ticks * tick;
  const room = Math.max(2, Math.floor(wide / 110)), step = timeStep(Math.max(length / room, tick));
  context.textAlign = "center";
  context.textBaseline = "top";
  for (let t = Math.ceil(from / step) * step; t <= from + length; t += step) {
    const x = left + ((t - from) / length) * wide;
    context.fillStyle = chart.ink.soft;
    context.fillRect(Math.round(x), tall, 1, 5);
    const text = step >= 86400 ? `day ${Math.round(t / 86400)}` : instant(t, step < 60);
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(x, left + half - 20), left + wide - half), tall + 8);
  }
}

function rowAxis(chart, context, { left, tall }) {
  const { data, row, rows } = chart;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillStyle = chart.ink.soft;
  const y = (at) => ((at - row) / rows) * tall;
  const write = (text, at) => context.fillText(text, left - 8, Math.min(Math.max(at, 7), tall - 7), left - 10);
  const nodes = data.nodes.length, perNode = (tall / rows) * (data.cpus / Math.max(nodes, 1));
  if (nodes) {
    const every = Math.max(1, roundStep(18 / perNode));
    for (let node = 0; node < nodes; node++) {
      const top = y(data.floor[node]), bottom = y(data.floor[node + 1]);
      if (bottom < 0 || top > tall) continue;
      if (node % every === 0) write(data.nodes[node], (Math.max(top, 0) + Math.min(bottom, tall)) / 2);
      if (perNode >= 4) context.fillRect(left - 4, Math.round(top), 4, 1);
    }
    return;
  }
  const step = Math.max(1, roundStep((rows * 40) / tall));
  for (let at = Math.ceil(row / step) * step; at <= row + rows; at += step) {
    context.fillRect(left - 5, Math.min(Math.round(y(at)), tall - 1), 5, 1);
    write(at.toLocaleString("en"), y(at));
  }
}

function boxOf(chart, view, job, low, high) {
  const { scale, schedule } = chart;
  const x = Math.max((schedule.start[job] * view.perTick - view.left) / scale, -4);
  const end = Math.min((schedule.end[job] * view.perTick - view.left) / scale, chart.width / scale + 4);
  return { x, y: (low * view.perRow - view.top) / scale, wide: end - x, tall: ((high - low) * view.perRow) / scale };
}

function names(chart, context, view) {
  const found = [];
  let seen = 0;
  chart.each(chart.from, chart.from + chart.ticks, (job, low, high) => {
    if (low > chart.row + chart.rows || high < chart.row) return false;
    const at = boxOf(chart, view, job, low, high);
    if (at.wide > 34 && at.tall > 13) found.push([job, at]);
    return ++seen > LABELS_MOST;
  });
  if (seen > LABELS_MOST) return;
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const [job, at] of found) {
    const [red, green, blue] = chart.ink.colours[chart.shade[job]];
    const light = 0.3 * red + 0.59 * green + 0.11 * blue >= 130;
    context.fillStyle = chart.dim && chart.dim[job] ? chart.ink.soft : light ? "#000" : "#fff";
    const text = chart.data.jobName(job), left = Math.max(at.x, 0) + 4;
    if (context.measureText(text).width < at.x + at.wide - left - 4) {
      context.fillText(text, left, at.y + at.tall / 2);
    }
  }
}

function outline(chart, context, view) {
  const { pieces, start } = chart.schedule, job = chart.chosen;
  if (job < 0 || start[job] < 0) return;
  for (let k = pieces.of[job]; k < pieces.count && pieces.job[k] === job; k++) {
    const at = boxOf(chart, view, job, pieces.low[k], pieces.high[k]);
    const wide = Math.max(at.wide, 3), tall = Math.max(at.tall, 3);
    for (const [colour, line] of [[`rgb(${chart.ink.background})`, 5], [chart.ink.text, 2.5]]) {
      context.strokeStyle = colour;
      context.lineWidth = line;
      context.strokeRect(at.x, at.y, wide, tall);
    }
  }
}
