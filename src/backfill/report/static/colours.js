// Colours of jobs by deadline met or missed, wait, reason of the start, user or project. report.css defines them.

const WAITS = [[0, "no wait"], [600, "up to 10 min"], [3600, "up to 1 h"], [21600, "up to 6 h"], [86400, "up to 1 d"],
  [Infinity, "more than 1 d"]];
const MANY = 8; // colours of users and of projects; then they come again

const DUE = ["met its deadline", "missed its deadline", "has none"];

const SCHEMES = {
  due: {
    name: "t",
    of: (data, schedule, job) => (data.dueAt(job) < 0 ? 2 : isLate(schedule, job) ? 1 : 0),
    texts: () => DUE.map((text, i) => [i, text]),
  },
  why: {
    name: "w",
    of: (data, schedule, job, box) => Math.min(schedule.why[box] >> 2, MANY - 1),
    texts: (data) => Object.keys(WHY).map((word) => [data.words.indexOf(word), WHY[word][0]]),
  },
  wait: {
    name: "l",
    of: (data, schedule, job) => WAITS.findIndex(([most]) => schedule.waited[job] * data.tick <= most),
    texts: () => WAITS.map(([, text], i) => [i, text]),
  },
  project: {
    name: "u",
    many: true,
    of: (data, schedule, job) => (data.project[job] < 0 ? MANY - 1 : data.project[job] % MANY),
    texts: () => [[0, "different colours: different projects; point at a job to see which"]],
  },
  user: {
    name: "u",
    many: true, // no colour has a meaning of its own
    of: (data, schedule, job) => (data.user[job] < 0 ? MANY - 1 : data.user[job] % MANY),
    texts: () => [[0, "different colours: different users; point at a job to see whose it is"]],
  },
};

// The colours as the page has them now, light or dark.
function inkOf(element, scheme) {
  const style = getComputedStyle(element);
  const rgb = (name) => {
    const hex = style.getPropertyValue(name).trim();
    return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  };
  const colours = Array.from({ length: MANY }, (_, i) => rgb(`--${SCHEMES[scheme].name}${i}`));
  return { background: rgb("--idle"), colours, text: style.getPropertyValue("--ink"),
    accent: style.getPropertyValue("--accent"), late: style.getPropertyValue("--late"), met: style.getPropertyValue("--met"), soft: style.getPropertyValue("--soft"), rule: style.getPropertyValue("--rule") };
}

// A colour per box, and which colours occur.
function shades(data, schedule, scheme) {
  const { of } = SCHEMES[scheme];
  const shade = new Uint8Array(schedule.start.length), used = new Set();
  for (let box = 0; box < shade.length; box++) {
    if (schedule.start[box] < 0) continue;
    shade[box] = of(data, schedule, schedule.jobOf(box), box);
    used.add(shade[box]);
  }
  return { shade, used };
}
