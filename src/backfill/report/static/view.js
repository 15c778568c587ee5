// The view of the chart as the part of the address after #, so that a link restores it.

const SECTION = "#gantt";

// The text for a view: { policy, with, from, to, rows, colour, find, ..., job }; undefined and empty values are omitted.
function addressOf(view) {
  const fields = Object.entries(view).filter(([, value]) => value !== undefined && value !== "" && value !== 0 && value !== false);
  return fields.length ? `${SECTION}?${new URLSearchParams(fields.map(([name, value]) => [name, String(value)]))}` : SECTION;
}

// The view in the address; null if it has none.
function viewOf(address) {
  return address.startsWith(`${SECTION}?`) ? Object.fromEntries(new URLSearchParams(address.slice(SECTION.length + 1))) : null;
}

// Writes the address without a new entry in the history.
function keepAddress(address) {
  try {
    history.replaceState(null, "", address);
  } catch { // some browsers do not allow it for files
    location.replace(address);
  }
}

// The current view.
function viewNow(section) {
  const { chart, data } = section, { from, ticks, row, rows } = chart, part = ticks < data.length, few = rows < data.rows;
  const round = (tick) => Math.round(tick * data.tick);
  return { policy: data.names[chart.policy], with: section.panes[1] && !section.panes[1].root.hidden ? data.names[section.panes[1].chart.policy] : "",
    from: part ? round(from) : "", to: part ? round(from + ticks) : "", rows: few ? `${row.toFixed(2)}-${(row + rows).toFixed(2)}` : "",
    colour: chart.scheme, ...section.asked, job: chart.chosen >= 0 ? data.jobName(chart.chosen) : "" };
}

// The view of the address, when the page opens and when a reader goes to another one.
function recall(section) {
  const view = viewOf(location.hash);
  if (!view) return;
  const { data, chart, find } = section, policy = data.names.indexOf(view.policy), other = data.names.indexOf(view.with);
  const number = (text, otherwise) => (Number.isFinite(Number(text)) && text !== "" && text !== undefined ? Number(text) : otherwise);
  if (policy >= 0) {
    section.panes[0].show(policy);
    const radio = find(`.policies [value="${policy}"]`);
    if (radio) radio.checked = true;
  }
  section.showOther(other < 0 || other === chart.policy ? "" : String(other));
  if (SCHEMES[view.colour] && (view.colour !== "due" || data.due)) {
    find("[name=colour]").value = view.colour;
    section.paint(view.colour);
  }
  for (const name of ["find", "waited", "user", "size"]) {
    const field = find(`[name=${name}]`);
    if (!field) continue;
    field.value = view[name] ?? (field.tagName === "SELECT" ? "0" : "");
    if (field.selectedIndex === -1) field.value = "0";
  }
  if (find("[name=missed]")) find("[name=missed]").checked = view.missed === "true";
  section.search();
  const job = view.job === undefined ? -1 : section.found.those((each) => data.jobName(each) === view.job)[0] ?? -1;
  if (job >= 0) section.choose(job, false);
  const [row, last] = (view.rows || "").split("-").map(Number), from = number(view.from, 0) / data.tick;
  const ticks = number(view.to, data.length * data.tick) / data.tick - from;
  chart.look(from, ticks, Number.isFinite(row) ? row : 0, last > row ? last - row : data.rows);
  section.root.scrollIntoView();
}
