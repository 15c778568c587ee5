// What the chart says in words: times, spans, and why a job started when it did.

const WHY = {
  "head": ["first in order", "it was first in the policy's order"],
  "backfill": ["backfilled", "it filled a hole that an earlier job, still waiting, could not use"],
  "reserved": ["its reserved time came", "the time that was reserved for it had come"],
  "moved-up": ["reservation moved up", "another job's end brought its reserved start forward"],
  "fit": ["fitted", "it fitted; this policy reserves nothing"],
  "gang": ["gang", "all tasks of its gang could start together"],
  "thread": ["thread", "its thread's turn had come"],
  "resumed": ["resumed", "it was resumed"],
};

function plural(count, word) { return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`; }

// A span for people: 42 s, 17 min, 3.2 h, 5.1 d; as units.py tells it.
function span(seconds) {
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= 2 * size) return `${(seconds / size).toFixed(1)} ${unit}`;
  }
  return `${Math.round(seconds)} s`;
}

// An instant as time since the first submit: day 12, 03:04:05.
function instant(seconds, withSeconds = true) {
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  const clock = `${two((seconds % 86400) / 3600)}:${two((seconds % 3600) / 60)}`;
  return `day ${Math.floor(seconds / 86400)}, ${clock}${withSeconds ? `:${two(seconds % 60)}` : ""}`;
}

// All that the chart knows of one job: [term, text] pairs.
function told(data, schedule, job) {
  const at = (tick) => instant(tick * data.tick), word = data.words[schedule.why[job] >> 2];
  const size = plural(data.procs[job], "cpu");
  const facts = [["job", data.jobName(job)], ["size", size]], licences = [];
  data.eachLicence(job, (licence, copies) => licences.push(data.licenceNames[licence] + (copies > 1 ? ` × ${copies}` : "")));
  if (licences.length) facts.push(["licences", licences.join(", ")]);
  if (data.users.length) facts.splice(1, 0, ["user", data.userName(job) || "not known"]);
  if (schedule.start[job] < 0) {
    return [...facts, ["never ran", NEVER[word] || `rejected for ${word}`]];
  }
  const ran = span(schedule.held[job] * data.tick), asked = span(data.walltime[job] * data.tick);
  const killed = schedule.why[job] & 1 ? ", killed at its limit" : ended(data, schedule, job);
  return [
    ...facts,
    ["wait", span(schedule.waited[job] * data.tick)],
    ["why then", (WHY[word] || [word, word])[1]],
    ["submitted", at(data.submit[job])],
    ["started", at(schedule.start[job])],
    ["ran", `${ran} of ${asked} asked for${killed}`],
    ...earlierRuns(data, schedule, job),
    ...deadline(data, schedule, job),
  ];
}

const NEVER = { CANCELLED: "cancelled before it started", PENDING: "waits for capacity that never comes back" };
const ENDED = { CANCELLED: ", cancelled", NODE_FAIL: ", lost with its node", PREEMPTED: ", preempted",
  PENDING: ", lost with its node, and waits for ever" };

function ended(data, schedule, box) { return (schedule.how && ENDED[data.states[schedule.how[box]]]) || ""; }

// The runs of a job before its last one, in order.
function earlierRuns(data, schedule, job) {
  const found = [];
  if (!schedule.again) return found;
  schedule.again.forEach((of, i) => {
    const box = data.count + i;
    if (of === job) found.push(["before", `${instant(schedule.start[box] * data.tick)}, ${span(schedule.held[box] * data.tick)}${ended(data, schedule, box)}`]);
  });
  return found;
}

// What became of a job's deadline, where it has one.
function deadline(data, schedule, job) {
  const due = data.dueAt(job);
  if (due < 0) return [];
  const off = span(Math.abs(schedule.end[job] - due) * data.tick);
  return [["deadline", `${instant(due * data.tick)}: ${isLate(schedule, job) ? `missed by ${off}` : `met, ${off} before it`}`]];
}

// The distances between marks of a time axis, in seconds.
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

function timeStep(least) {
  const found = STEPS.find((step) => step >= least);
  return found || 86400 * roundStep(least / 86400);
}

// The least of 1, 2, 5, 10, 20, 50 ... that is not below `least`.
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least * (1 - 1e-9));
}
