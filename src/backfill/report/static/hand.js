// Mouse, touch and keys on the chart.

const KEYS = {
  "ArrowLeft": (chart, far) => chart.pan(far ? -0.9 : -0.1),
  "ArrowRight": (chart, far) => chart.pan(far ? 0.9 : 0.1),
  "ArrowUp": (chart, far) => chart.pan(0, far ? -0.9 : -0.1),
  "ArrowDown": (chart, far) => chart.pan(0, far ? 0.9 : 0.1),
  "+": (chart) => chart.zoom(1.5),
  "=": (chart) => chart.zoom(1.5),
  "-": (chart) => chart.zoom(1 / 1.5),
  "t": (chart) => chart.zoom(1, 0.5, 1.5),
  "f": (chart) => chart.zoom(1, 0.5, 1 / 1.5),
  "0": (chart) => chart.whole(),
  "Home": (chart) => chart.look(0, chart.ticks),
  "End": (chart) => chart.look(chart.data.length, chart.ticks),
};

// point(job, x, y) is called with the job under the pointer, choose(job) with the one clicked, step(+1 or -1) to move on.
function takeInHand(chart, { point, choose, step }) {
  const front = chart.front, fingers = new Map();
  let travelled = 0, spread = null;
  const at = (event) => {
    const { left, top } = front.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };
  const stretch = () => {
    const [[x, y], [u, v]] = [...fingers.values()];
    return { apart: Math.hypot(x - u, y - v), across: chart.shareOf((x + u) / 2, (y + v) / 2)[0] };
  };

  front.addEventListener("pointerdown", (event) => {
    front.focus({ preventScroll: true });
    front.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, at(event));
    if (fingers.size === 1) travelled = 0;
    spread = fingers.size === 2 ? stretch() : null;
  });
  front.addEventListener("pointermove", (event) => {
    const [x, y] = at(event), before = fingers.get(event.pointerId);
    if (!before) return point(chart.jobAt(x, y), x, y);
    fingers.set(event.pointerId, [x, y]);
    if (fingers.size === 2 && spread) {
      const now = stretch();
      chart.zoom(now.apart / Math.max(spread.apart, 1), spread.across);
      chart.pan(spread.across - now.across);
      spread = now;
      return undefined;
    }
    travelled += Math.abs(x - before[0]) + Math.abs(y - before[1]);
    chart.pan(((before[0] - x) * chart.scale) / chart.width, ((before[1] - y) * chart.scale) / chart.height);
    return point(-1);
  });
  const lift = (event) => {
    const down = fingers.delete(event.pointerId);
    spread = null;
    if (down && event.type === "pointerup" && !fingers.size && travelled < 5) choose(chart.jobAt(...at(event)));
  };
  front.addEventListener("pointerup", lift);
  front.addEventListener("pointercancel", lift);
  front.addEventListener("pointerleave", () => point(-1));

  // The wheel belongs to the page until the chart has the focus, or the Control key is held.
  front.addEventListener("wheel", (event) => {
    if (document.activeElement !== front && !event.ctrlKey) return;
    event.preventDefault();
    const [across, down] = chart.shareOf(...at(event));
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) && !event.shiftKey) {
      chart.pan(event.deltaX / 800);
      return;
    }
    const delta = event.deltaY || event.deltaX, factor = Math.exp(-delta * (event.deltaMode ? 0.05 : 0.002));
    if (event.shiftKey) chart.zoom(1, across, factor, down); else chart.zoom(factor, across);
    point(-1);
  }, { passive: false });

  front.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "n" || event.key === "p") step(event.key === "n" ? 1 : -1);
    else if (event.key === "Escape") choose(-1);
    else if (KEYS[event.key]) KEYS[event.key](chart, event.shiftKey);
    else return;
    event.preventDefault();
  });
}
