// The genealogy and the chart below it, on two canvases that share their columns.

const LEFT = 34, TOP = 22, WORD_WIDTH = 92, CHART = 132;

// Colours and fonts of the theme, from the style sheet.
function palette() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue("--" + name).trim();
  const names = "paper ink soft line run ended dead answer accent band".split(" ");
  return Object.fromEntries(names.map((name) => [name, get(name)]));
}

class Genealogy {
  // Draws `out` into a scrolling box with a canvas that stays in view, and a canvas for the chart.
  constructor(out, box, canvas, chart) {
    Object.assign(this, { out, box, canvas, chart, words: false, colours: palette() });
    this.spacer = box.querySelector(".spacer");
    this.still = document.createElement("canvas");
  }

  // Fit columns and rows to the box; words need room of their own.
  layout() {
    const { out, box } = this;
    const frames = Math.max(1, out.frames.length);
    this.dpr = Math.min(2, window.devicePixelRatio || 1);
    this.width = box.clientWidth;
    const room = this.width - LEFT - 10;
    const least = this.words ? WORD_WIDTH : 3.2;
    this.column = Math.max(least, Math.min(this.words ? 150 : 230, room / frames));
    const fit = Math.min(26, Math.max(4.5, 430 / out.n));
    this.row = this.readable() ? Math.max(17, fit) : fit;
    this.wide = LEFT + 10 + this.column * frames;
    this.high = TOP + this.row * out.n + 8;
    this.height = Math.min(this.high, Math.max(220, Math.round(window.innerHeight * 0.62)));
    box.style.height = this.height + "px";
    this.spacer.style.width = this.wide + "px";
    this.spacer.style.height = this.high + "px";
    this.scrolled();
    size(this.canvas, this.width, this.height, this.dpr);
    size(this.chart, this.width, CHART, this.dpr);
    this.paint();
  }

  // Where the box is scrolled to: asking for it at every step would have the page laid out twice.
  scrolled() {
    this.left = this.box.scrollLeft;
    this.top = this.box.scrollTop;
  }

  readable() {
    return this.column >= 56;
  }

  x(f) {
    return LEFT + this.column * (f + 0.5);
  }

  y(i) {
    return TOP + this.row * (i + 0.5);
  }

  recolour() {
    this.colours = palette();
    this.paint();
  }

  // The still picture: every branch, drawn once. Words are drawn as they come into view.
  paint() {
    if (this.readable()) return;
    const scale = Math.min(this.dpr, Math.sqrt(1.6e7 / (this.wide * this.high)));
    size(this.still, this.wide, this.high, scale, false);
    const g = this.still.getContext("2d");
    g.setTransform(scale, 0, 0, scale, 0, 0);
    this.edges(g, 0, this.out.frames.length - 1);
    this.nodes(g, 0, this.out.frames.length - 1);
  }

  // Branches in five strengths: the fewer steps a dead branch still has, the fainter it is.
  edges(g, from, to, fade = 1) {
    const paths = Array.from({ length: 5 }, () => new Path2D());
    const last = Math.min(to + 1, this.out.frames.length - 1);
    for (let i = 0; i < this.out.n; i++) {
      let begun = -1, strength = -1; // a straight run of edges is one line
      const flush = (end) => {
        if (begun >= 0) this.curve(paths[strength], begun, i, end, i);
        begun = -1;
      };
      for (let f = Math.max(1, from); f <= last; f++) {
        const frame = this.out.frames[f];
        const straight = i < frame.n && frame.parent[i] === i && frame.parentFrame[i] === f - 1;
        const level = i >= frame.n ? 0 : frame.survives[i] ? 4 : Math.min(3, frame.depth[i]);
        if (begun >= 0 && (!straight || level !== strength || this.readable())) flush(f - 1);
        if (straight && begun < 0) [begun, strength] = [f - 1, level];
        else if (!straight && i < frame.n && frame.parent[i] >= 0) {
          this.curve(paths[level], frame.parentFrame[i], frame.parent[i], f, i);
        }
      }
      flush(last);
    }
    paths.forEach((path, level) => {
      g.strokeStyle = level === 4 ? this.colours.run : this.colours.soft;
      g.globalAlpha = fade * (level === 4 ? 0.75 : 0.22 + 0.13 * level);
      g.lineWidth = level === 4 ? Math.min(1.8, 0.6 + this.row / 14) : Math.min(1.1, 0.4 + this.row / 20);
      g.stroke(path);
    });
    g.globalAlpha = fade;
  }

  curve(path, f, i, g, j) {
    const inset = this.readable() ? this.column / 2 - 7 : 0;
    const [x0, y0, x1, y1] = [this.x(f) + inset, this.y(i), this.x(g) - inset, this.y(j)];
    path.moveTo(x0, y0);
    if (i === j) path.lineTo(x1, y1);
    else path.bezierCurveTo((x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1, y1);
  }

  radius(share) {
    const most = Math.max(1.1, Math.min(this.row * 0.46, this.column * 0.45, 7));
    return Math.max(0.8, most * Math.min(1, Math.sqrt((share * this.out.n) / 3)));
  }

  nodes(g, from, to) {
    const { colours } = this;
    const running = new Path2D(), faint = new Path2D(), ended = new Path2D(), dead = new Path2D();
    const dense = this.row < 9;
    for (let f = from; f <= to; f++) {
      const frame = this.out.frames[f];
      for (let i = 0; i < frame.n; i++) {
        const [x, y, r] = [this.x(f), this.y(i), this.radius(frame.share[i])];
        if (frame.state[i] === DEAD) {
          // A cross where it died; what stays dead is a line only.
          if (frame.fresh[i]) cross(dead, x, y, Math.min(3.2, this.row * 0.4));
        } else if (frame.state[i] === ENDED) {
          const side = frame.fresh[i] ? Math.max(1.6, r) : Math.min(1.2, r);
          ended.rect(x - side, y - side, 2 * side, 2 * side);
        } else if (!dense || r > 1.5) circle(frame.survives[i] ? running : faint, x, y, r);
      }
    }
    g.fillStyle = colours.run;
    g.globalAlpha = 0.35;
    g.fill(faint);
    g.globalAlpha = 1;
    g.fill(running);
    g.fillStyle = colours.ended;
    g.fill(ended);
    g.strokeStyle = colours.dead;
    g.lineWidth = 1.3;
    g.globalAlpha = 0.8;
    g.stroke(dead);
    g.globalAlpha = 1;
  }

  // One frame of the animation: what has happened until frame `at`, the rest faint.
  draw(at, path, node) {
    const g = this.canvas.getContext("2d");
    const { colours } = this;
    const { left, top } = this;
    g.setTransform(this.dpr, 0, 0, this.dpr, 0, 0);
    g.clearRect(0, 0, this.width, this.height);
    g.translate(-left, -top);
    const edge = this.x(at) + this.column / 2;
    g.fillStyle = colours.band;
    g.fillRect(edge - this.column, 0, this.column, this.high);
    for (const [begin, end, alpha] of [[left, Math.min(edge, left + this.width), node ? 0.42 : 1], [Math.max(edge, left), left + this.width, 0.13]]) {
      if (end <= begin) continue;
      g.save();
      g.globalAlpha = alpha;
      g.beginPath();
      g.rect(begin, top, end - begin, this.height);
      g.clip();
      if (this.readable()) this.cells(g, begin, end, path, at);
      else g.drawImage(this.still, 0, 0, this.wide, this.high);
      g.restore();
    }
    if (path) this.highlight(g, path, at);
    if (node && !this.readable()) this.kin(g, node, at);
    this.heads(g, left, top, at);
    this.drawChart(at, path);
  }

  // The lineage, strong until now and thin beyond.
  highlight(g, path, at) {
    for (const now of [false, true]) {
      const line = new Path2D();
      let before = -1;
      for (let f = 0; f < path.length; f++) {
        if (path[f] < 0) continue;
        if (before >= 0 && f <= at === now) this.curve(line, before, path[before], f, path[f]);
        before = f;
      }
      g.strokeStyle = this.colours.answer;
      g.lineCap = "round";
      g.lineWidth = now ? Math.min(4, 2 + this.row / 12) : 1.2;
      g.globalAlpha = now ? 1 : 0.45;
      g.stroke(line);
    }
    g.globalAlpha = 1;
    if (path[at] >= 0 && !this.readable()) {
      const spot = new Path2D();
      circle(spot, this.x(at), this.y(path[at]), Math.max(4.5, this.radius(this.out.frames[at].share[path[at]]) + 1.5));
      g.fillStyle = this.colours.answer;
      g.strokeStyle = this.colours.ink;
      g.lineWidth = 1.4;
      g.fill(spot);
      g.stroke(spot);
    }
  }

  // Every descendant of the chosen particle.
  kin(g, node, at) {
    const line = new Path2D();
    let here = [node];
    while (here.length) {
      const next = [];
      for (const [f, i] of here) {
        for (const [c, j] of this.out.frames[f].children[i]) {
          if (c > at) continue;
          this.curve(line, f, i, c, j);
          next.push([c, j]);
        }
      }
      here = next;
    }
    g.strokeStyle = this.colours.answer;
    g.lineWidth = 1.2;
    g.globalAlpha = 0.8;
    g.stroke(line);
    g.globalAlpha = 1;
  }

  // Words in cells as dark as their share of the weight, for the columns in view.
  cells(g, begin, end, path, at) {
    const { out, colours } = this;
    const first = Math.max(0, Math.floor((begin - LEFT) / this.column));
    const last = Math.min(out.frames.length - 1, Math.floor((end - LEFT) / this.column));
    const fade = g.globalAlpha;
    this.edges(g, first, last, fade);
    g.font = "12.5px " + getComputedStyle(document.body).getPropertyValue("--serif");
    g.textBaseline = "middle";
    const wide = this.column - 14, high = Math.min(this.row - 2, 20);
    for (let f = first; f <= last; f++) {
      const frame = out.frames[f];
      for (let i = 0; i < frame.n; i++) {
        const [x, y] = [this.x(f) - wide / 2, this.y(i)];
        if (y < this.top - high || y > this.top + this.height + high) continue;
        const chosen = path && path[f] === i;
        const dead = frame.state[i] === DEAD;
        g.globalAlpha = fade;
        g.fillStyle = colours.paper;
        round(g, x, y - high / 2, wide, high, 4);
        g.fill();
        g.globalAlpha = fade * (dead ? 0.1 : 0.06 + 0.46 * Math.min(1, Math.sqrt((frame.share[i] * out.n) / 4)));
        g.fillStyle = dead ? colours.dead : frame.state[i] === ENDED ? colours.ended : colours.run;
        g.fill();
        if (chosen) {
          g.globalAlpha = fade;
          g.strokeStyle = colours.answer;
          g.lineWidth = f === at ? 3 : 2;
          g.stroke();
        }
        g.globalAlpha = fade * (frame.survives[i] || chosen ? 1 : dead ? 0.6 : 0.68);
        g.fillStyle = colours.ink;
        const mark = dead ? "✕ " : frame.state[i] === ENDED ? "■ " : "";
        g.fillText(mark + clipped(g, visible(frame.added[i].trim()) || "·", wide - 10 - (mark ? 14 : 0)), x + 5, y + 0.5);
      }
    }
  }

  // Step numbers along the top, and the particles' numbers at the left.
  heads(g, left, top, at) {
    const { colours, out } = this;
    g.fillStyle = colours.paper;
    g.globalAlpha = 0.92;
    g.fillRect(left, top, this.width, TOP - 4);
    g.fillRect(left, top, LEFT - 8, this.height);
    g.globalAlpha = 1;
    g.font = "11px system-ui, sans-serif";
    g.textBaseline = "alphabetic";
    g.textAlign = "center";
    const every = Math.max(1, Math.ceil(34 / this.column / 5) * (this.column < 34 ? 5 : 1));
    for (let f = 0; f < out.frames.length; f++) {
      const step = out.frames[f].step;
      if (f !== at && (step % every || Math.abs(this.x(f) - this.x(at)) < 26)) continue;
      if (this.x(f) < left + LEFT) continue;
      g.fillStyle = f === at ? colours.ink : colours.soft;
      g.font = (f === at ? "bold " : "") + "11px system-ui, sans-serif";
      g.fillText(String(step), this.x(f), top + 12);
    }
    g.textAlign = "right";
    g.textBaseline = "middle";
    g.fillStyle = colours.soft;
    g.font = "11px system-ui, sans-serif";
    const skip = Math.max(1, Math.ceil(14 / this.row));
    const nice = [1, 2, 4, 8, 16, 32].find((s) => s >= skip) || skip;
    for (let i = 0; i < out.n; i += nice) {
      if (this.y(i) > top + TOP) g.fillText(String(i + 1), left + LEFT - 12, this.y(i));
    }
    g.textAlign = "left";
  }

  // The effective sample size above, the spread of the log weights below, and each resampling.
  drawChart(at, path) {
    const g = this.chart.getContext("2d");
    const { out, colours } = this;
    const { left } = this;
    const first = Math.max(0, Math.floor((left - LEFT) / this.column) - 1);
    const last = Math.min(out.frames.length - 1, Math.ceil((left + this.width) / this.column));
    g.setTransform(this.dpr, 0, 0, this.dpr, 0, 0);
    g.clearRect(0, 0, this.width, CHART);
    g.save();
    g.beginPath();
    g.rect(LEFT - 4, 0, this.width, CHART);
    g.clip();
    g.translate(-left, 0);
    g.fillStyle = colours.band;
    g.fillRect(this.x(at) - this.column / 2, 0, this.column, CHART);
    const essY = (ess) => 54 - (44 * Math.min(ess || 0, out.n)) / out.n;
    const { low, high } = this.range();
    const logY = (w) => 124 - (54 * (Math.max(low, w) - low)) / (high - low);
    g.strokeStyle = colours.line;
    g.lineWidth = 1;
    for (const y of [10, 54, 70, 124]) rule(g, left, left + this.width, y);
    // Where particles were resampled: a dashed line and a triangle.
    for (const { frame } of out.resampled) {
      if (frame < first || frame > last) continue;
      const x = this.x(frame) + this.column / 2;
      g.setLineDash([2, 3]);
      g.strokeStyle = colours.soft;
      g.beginPath();
      g.moveTo(x, 10);
      g.lineTo(x, 124);
      g.stroke();
      g.setLineDash([]);
      g.fillStyle = colours.accent;
      g.beginPath();
      g.moveTo(x - 4, 2);
      g.lineTo(x + 4, 2);
      g.lineTo(x, 9);
      g.fill();
    }
    const spread = this.spread();
    area(g, first, last, (f) => this.x(f), (f) => logY(spread[f][1]), (f) => logY(spread[f][0]), colours.run, 0.16);
    area(g, first, last, (f) => this.x(f), (f) => essY(out.frames[f].ess), () => 54, colours.accent, 0.18);
    stroke(g, first, last, (f) => this.x(f), (f) => essY(out.frames[f].ess), colours.accent, 1.8);
    stroke(g, first, last, (f) => this.x(f), (f) => logY(spread[f][2]), colours.run, 1.4);
    if (path) {
      const mine = (f) => (path[f] < 0 ? NaN : logY(out.frames[f].logWeight[path[f]]));
      stroke(g, first, last, (f) => this.x(f), mine, colours.answer, 2.2);
    }
    g.restore();
    g.fillStyle = colours.soft;
    g.font = "11px system-ui, sans-serif";
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const [text, y] of [[String(out.n), 12], ["0", 54], [short(high), 72], [short(low), 124]]) g.fillText(text, LEFT - 8, y);
    g.textAlign = "left";
  }

  // Lowest, highest and median finite log weight of each frame.
  spread() {
    return (this._spread ??= this.out.frames.map((frame) => {
      const alive = Array.from(frame.logWeight).filter(Number.isFinite).sort((a, b) => a - b);
      return alive.length ? [alive[0], alive[alive.length - 1], alive[alive.length >> 1]] : [NaN, NaN, NaN];
    }));
  }

  range() {
    if (this._range) return this._range;
    const told = this.spread().filter((s) => Number.isFinite(s[0]));
    let low = Math.min(0, ...told.map((s) => s[0])), high = Math.max(...told.map((s) => s[1]), low + 1);
    return (this._range = { low, high });
  }

  // The particle at a place of the canvas, or null.
  at(clientX, clientY) {
    const box = this.canvas.getBoundingClientRect();
    const f = Math.floor((clientX - box.left + this.box.scrollLeft - LEFT) / this.column);
    const i = Math.floor((clientY - box.top + this.box.scrollTop - TOP) / this.row);
    const frame = this.out.frames[f];
    return frame && i >= 0 && i < frame.n ? [f, i] : null;
  }

  // Scroll so that a frame, and a row if there is one, is in view.
  reveal(f, i) {
    let { left, top } = this;
    const x = this.x(f);
    const out = x - this.column / 2 < left + LEFT || x + this.column / 2 > left + this.width;
    if (out) left = x - this.width * 0.45;
    if (i >= 0) {
      const y = this.y(i);
      if (y < top + TOP + 20 || y > top + this.height - 24) top = y - this.height * 0.45;
    }
    left = Math.max(0, Math.min(left, this.wide - this.width));
    top = Math.max(0, Math.min(top, this.high - this.height));
    if (left !== this.left) this.box.scrollLeft = this.left = left;
    if (top !== this.top) this.box.scrollTop = this.top = top;
  }
}

function size(canvas, width, height, scale, styled = true) {
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  if (!styled) return;
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
}

function circle(path, x, y, r) {
  path.moveTo(x + r, y);
  path.arc(x, y, r, 0, 7);
}

function cross(path, x, y, r) {
  path.moveTo(x - r, y - r);
  path.lineTo(x + r, y + r);
  path.moveTo(x + r, y - r);
  path.lineTo(x - r, y + r);
}

function round(g, x, y, width, height, r) {
  g.beginPath();
  g.roundRect(x, y, width, height, r);
}

function rule(g, x0, x1, y) {
  g.beginPath();
  g.moveTo(x0, y + 0.5);
  g.lineTo(x1, y + 0.5);
  g.stroke();
}

function stroke(g, first, last, x, y, colour, width) {
  g.strokeStyle = colour;
  g.lineWidth = width;
  g.lineJoin = "round";
  g.beginPath();
  let pen = false;
  for (let f = first; f <= last; f++) {
    if (!Number.isFinite(y(f))) {
      pen = false;
      continue;
    }
    if (pen) g.lineTo(x(f), y(f));
    else g.moveTo(x(f), y(f));
    pen = true;
  }
  g.stroke();
}

function area(g, first, last, x, upper, lower, colour, alpha) {
  const shown = [];
  for (let f = first; f <= last; f++) if (Number.isFinite(upper(f))) shown.push(f);
  g.beginPath();
  for (const f of shown) g.lineTo(x(f), upper(f));
  for (const f of shown.reverse()) g.lineTo(x(f), lower(f));
  g.fillStyle = colour;
  g.globalAlpha = alpha;
  g.fill();
  g.globalAlpha = 1;
}

const short = (x) => (Math.abs(x) >= 1000 ? (x / 1000).toFixed(0) + "k" : x.toFixed(0)).replace("-", "−");

const _widths = new Map();
function clipped(g, text, width) {
  const key = text + "|" + width;
  if (_widths.has(key)) return _widths.get(key);
  let shown = text.slice(0, 60);
  if (g.measureText(shown).width > width) {
    while (shown.length > 1 && g.measureText(shown + "…").width > width) shown = shown.slice(0, -1);
    shown += "…";
  }
  if (_widths.size > 20000) _widths.clear();
  _widths.set(key, shown);
  return shown;
}
