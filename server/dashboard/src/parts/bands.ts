import type uPlot from "uplot";

/** A period that is tinted behind the lines of a plot. */
export interface Band {
  /** Seconds since the epoch. */
  readonly from: number;
  readonly to: number;
  /** CSS token of its colour. */
  readonly token: string;
}

const TINT = 0.18;

/** Draws the visible parts of the bands. */
export function drawBands(plot: uPlot, bands: readonly Band[], colour: (token: string) => string): void {
  const { min, max } = plot.scales["x"] ?? {};
  if (min === undefined || min === null || max === undefined || max === null) return;
  plot.ctx.save();
  plot.ctx.globalAlpha = TINT;
  for (const band of bands) {
    const [from, to] = [Math.max(min, band.from), Math.min(max, band.to)];
    if (to <= from) continue;
    const left = plot.valToPos(from, "x", true);
    plot.ctx.fillStyle = colour(band.token);
    plot.ctx.fillRect(left, plot.bbox.top, Math.max(1, plot.valToPos(to, "x", true) - left), plot.bbox.height);
  }
  plot.ctx.restore();
}
