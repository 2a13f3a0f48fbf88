// The time line: how many releases there were when, faults as bands, and the moment that is shown.

export class Timeline {
  constructor(canvas, input, set) {
    this.canvas = canvas; this.input = input;
    this.counts = null;
    input.addEventListener("input", () => set(Number(input.value)));
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.resize();
  }

  resize() {
    this.ratio = Math.min(2, devicePixelRatio || 1);
    this.width = this.canvas.clientWidth; this.height = this.canvas.clientHeight;
    this.canvas.width = Math.max(1, this.width * this.ratio); this.canvas.height = Math.max(1, this.height * this.ratio);
    this.counts = null;
    this.wanted?.();
  }

  count(log) {
    const bins = Math.max(1, Math.floor(this.width / 3)), counts = new Uint32Array(bins), end = log.end || 1;
    for (const row of log.releases) counts[Math.min(bins - 1, Math.floor((log.time[row] / end) * bins))]++;
    this.counts = counts; this.counted = log.rows; this.most = counts.reduce((a, b) => Math.max(a, b), 1);
  }

  draw(log, time, bands, colours) {
    if (!this.counts || this.counted !== log.rows) this.count(log);
    const pen = this.canvas.getContext("2d"), { width, height, counts } = this, end = log.end || 1;
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    for (const band of bands) {
      const from = (band.from / end) * width;
      pen.fillStyle = colours.band;
      pen.globalAlpha = band.what === "partition" ? 0.2 : 0.13;
      pen.fillRect(from, 0, Math.max(2, (band.to / end) * width - from), height - 4);
    }
    pen.globalAlpha = 1;
    const here = (time / end) * width, floor = height - 4;
    counts.forEach((count, bin) => {
      if (!count) return;
      const x = (bin / counts.length) * width, tall = Math.max(1.5, (count / this.most) * (height - 10));
      pen.fillStyle = x <= here ? colours.accent : colours.line;
      pen.fillRect(x, floor - tall, Math.max(1, width / counts.length - 1), tall);
    });
    pen.fillStyle = colours.line;
    pen.fillRect(0, floor, width, 1);
    pen.fillStyle = colours.light;
    pen.fillRect(Math.min(width - 2, Math.max(0, here - 1)), 0, 2, height);
    pen.beginPath(); pen.arc(Math.min(width - 4, Math.max(4, here)), floor, 4, 0, 7); pen.fill();
    if (document.activeElement !== this.input || this.input.max !== String(end)) {
      this.input.max = end; this.input.step = "any";
    }
    if (Number(this.input.value) !== time) this.input.value = time;
  }
}
