// Tables that sort by a click on a heading, and show all their rows if not all are visible at first.

const FEWEST_ROWS = 3; // that are worth sorting

// The sort key of a cell: its number, if it begins with one; a dash is less than all numbers. Each column has one unit.
function keyOf(row, column) {
  const text = row.cells[column].textContent.replace(/longer:|[▲,\s]/g, "").replace("−", "-");
  const found = /^[+×]?(-?)(<?)([\d.]+)/.exec(text);
  if (text === "-" || text === "") return [-Infinity, ""];
  return found ? [(found[1] ? -1 : 1) * Number(found[3]) * (found[2] ? 0.5 : 1), text] : [NaN, text];
}

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells], bodies = [...table.tBodies];
  const original = bodies.flatMap((body) => [...body.rows]), seen = bodies.map((body) => body.rows.length);
  if (original.length < FEWEST_ROWS) return;
  const put = (rows) => {
    let from = 0;
    bodies.forEach((body, i) => { body.append(...rows.slice(from, from + seen[i])); from += seen[i]; });
  };
  heads.forEach((head, column) => {
    if (head.classList.contains("draw")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const keys = new Map(original.map((row) => [row, keyOf(row, column)]));
      const numbers = [...keys.values()].filter(([number]) => !Number.isNaN(number)).length > original.length / 2;
      const order = numbers ? ["descending", "ascending"] : ["ascending", "descending"];
      const next = [...order, null][order.indexOf(head.ariaSort) + 1];
      for (const each of heads) each.removeAttribute("aria-sort");
      if (!next) return put(original);
      head.ariaSort = next;
      const up = next === "ascending" ? 1 : -1;
      const compare = ([a, s], [b, t]) => (numbers ? (Number.isNaN(a) ? -Infinity : a) - (Number.isNaN(b) ? -Infinity : b) || 0 : 0)
        || s.localeCompare(t, "en", { numeric: true });
      return put([...original].sort((a, b) => up * compare(keys.get(a), keys.get(b))));
    });
  });
}

for (const table of document.querySelectorAll(".wide > table")) if (table.tHead) sortable(table);
for (const button of document.querySelectorAll("button[data-all]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const about = button.closest("p");
    for (const body of about.previousElementSibling.querySelectorAll("tbody")) body.hidden = false;
    about.remove();
  });
}
