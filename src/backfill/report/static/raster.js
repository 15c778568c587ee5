// Drawing by area: a pixel takes the mix of colours of the jobs in it, each by the share of the pixel that it covers,
// and what is idle shows the background. So a picture of a million jobs that are smaller than a pixel is their average,
// and a picture of ten is ten rectangles, by the same rule.

const HELD = 0.35; // of the colour of a box remains while it holds processors without progress
const AHEAD = 0.3; // and as long as it is only planned

class Raster {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { willReadFrequently: true });
    this.sums = new Float32Array(0);
  }

  // Draws the pixel columns [from, to). view: perTick and perRow in pixels, left and top in pixels from the origin.
  // ink: background and colours as [r, g, b]; shade: the index of each job's colour; dim: dimmed jobs, or null.
  draw(schedule, view, ink, shade, dim, from, to) {
    const { pieces, start, end } = schedule;
    const wide = to - from, tall = this.canvas.height;
    if (wide <= 0 || !tall) return;
    if (this.sums.length < 4 * wide * tall) this.sums = new Float32Array(4 * wide * tall);
    const sums = this.sums;
    sums.fill(0, 0, 4 * wide * tall);
    const { perTick, perRow, top } = view, left = view.left + from;
    const t0 = left / perTick, t1 = (left + wide) / perTick;
    const gap = perRow >= 4 ? 1 : 0; // rows that are high enough have a line between them
    for (let block = 0; block < pieces.earliest.length; block++) {
      if (pieces.earliest[block] > t1) break;
      if (pieces.latest[block] < t0) continue;
      const last = Math.min(pieces.count, (block + 1) * BLOCK);
      for (let k = block * BLOCK; k < last; k++) {
        const job = pieces.job[k], since = progressFrom(schedule, job) * perTick - left;
        let x0 = start[job] * perTick - left, x1 = end[job] * perTick - left;
        if (x1 <= 0 || x0 >= wide) continue;
        let y0 = pieces.low[k] * perRow - top, y1 = pieces.high[k] * perRow - top;
        if (y1 <= 0 || y0 >= tall) continue;
        if (x1 - x0 > 4 && y1 - y0 > 4) { x1 -= 1; y1 -= 1; } else if (gap) y1 -= gap;
        if (x0 < 0) x0 = 0;
        if (x1 > wide) x1 = wide;
        if (y0 < 0) y0 = 0;
        if (y1 > tall) y1 = tall;
        const colour = ink.colours[shade[job]];
        const weight = dim && dim[schedule.jobOf(job)] ? 0.12 : 1;
        if (since > x0) this.cover(wide, x0, since < x1 ? since : x1, y0, y1, colour, HELD * weight);
        const solid = schedule.solidUntil ? schedule.solidUntil[job] * perTick - left : x1, done = solid < x1 ? solid : x1;
        this.cover(wide, since > x0 ? since : x0, done, y0, y1, colour, weight);
        if (done < x1) this.cover(wide, done > x0 ? done : x0, x1, y0, y1, colour, AHEAD * weight);
      }
    }
    this.put(sums, ink.background, from, wide, tall);
  }

  // Adds a rectangle to the sums, which have this many columns.
  cover(wide, x0, x1, y0, y1, colour, weight) {
    const { sums } = this, firstX = x0 | 0, endX = Math.ceil(x1), endY = Math.ceil(y1);
    const red = colour[0] * weight, green = colour[1] * weight, blue = colour[2] * weight;
    if (x1 <= x0) return;
    for (let y = y0 | 0; y < endY; y++) {
      const high = (y + 1 < y1 ? y + 1 : y1) - (y > y0 ? y : y0);
      for (let x = firstX, at = 4 * (y * wide + firstX); x < endX; x++, at += 4) {
        const area = high * ((x + 1 < x1 ? x + 1 : x1) - (x > x0 ? x : x0));
        sums[at] += area * red;
        sums[at + 1] += area * green;
        sums[at + 2] += area * blue;
        sums[at + 3] += area * weight;
      }
    }
  }

  put(sums, [red, green, blue], from, wide, tall) {
    const image = this.context.createImageData(wide, tall);
    const pixels = new Uint32Array(image.data.buffer);
    const plain = 0xff000000 | (blue << 16) | (green << 8) | red;
    for (let i = 0, at = 0; i < pixels.length; i++, at += 4) {
      const covered = sums[at + 3];
      if (!covered) {
        pixels[i] = plain;
        continue;
      }
      const idle = covered < 1 ? 1 - covered : 0, scale = covered > 1 ? 1 / covered : 1;
      pixels[i] = 0xff000000 | ((sums[at + 2] * scale + blue * idle) << 16)
        | ((sums[at + 1] * scale + green * idle) << 8) | (sums[at] * scale + red * idle);
    }
    this.context.putImageData(image, from, 0);
  }

  // Keeps the drawing, for `stretch`.
  keep() {
    this.kept = this.kept || document.createElement("canvas");
    Object.assign(this.kept, { width: this.canvas.width, height: this.canvas.height });
    this.kept.getContext("2d").drawImage(this.canvas, 0, 0);
  }

  // Shows the kept drawing of one window stretched to another: coarse, but immediate.
  stretch(before, now, [red, green, blue]) {
    const { context, kept } = this, across = now.perTick / before.perTick, down = now.perRow / before.perRow;
    context.fillStyle = `rgb(${red} ${green} ${blue})`;
    context.fillRect(0, 0, kept.width, kept.height);
    context.drawImage(kept, before.left * across - now.left, before.top * down - now.top, kept.width * across, kept.height * down);
  }

  // Moves the drawing by whole pixels; the caller draws the part that comes into sight.
  shift(pixels) {
    this.context.globalCompositeOperation = "copy";
    this.context.drawImage(this.canvas, pixels, 0);
    this.context.globalCompositeOperation = "source-over";
  }
}
