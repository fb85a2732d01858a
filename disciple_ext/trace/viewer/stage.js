// One run on the page: its answer, genealogy, chart, particles, program, and what forced a drop.

const TAIL = 260; // characters of a text that the list shows

class Stage {
  // `attempt` may be null (a run of a sampler alone) and `run` too (a program that never ran).
  constructor(record, attempt, run, title) {
    Object.assign(this, { record, attempt, run, title, at: 0, node: null, path: null, only: false, byWeight: false });
    this.out = run ? decodeRun(run) : null;
    this.root = el("section", { class: "stage", "aria-label": title });
    this.root.append(el("h2", {}, title), this.facts(), ...this.problem());
    if (this.frames()) this.build();
    else this.root.append(el("p", { class: "quiet" }, run ? "No step of this run was recorded." : "This program did not run."));
    if (attempt && attempt.program && !this.program) {
      this.program = new ProgramView(attempt.program, this.failedLine(), title);
      this.root.append(this.program.box);
    }
  }

  frames() {
    return this.out ? this.out.frames.length : 0;
  }

  failedLine() {
    const named = /\bline (\d+)/.exec((this.attempt && this.attempt.error) || "");
    return named && this.attempt.outcome !== "rejected" ? Number(named[1]) : null;
  }

  facts() {
    const { run, attempt, record } = this;
    const list = [];
    const add = (name, value) => list.push(el("div", {}, el("dt", {}, name), el("dd", {}, value)));
    if (run) {
      add("sampler", (run.sampler || "a sampler") + (run.n ? ", " + run.n + " particles" : ""));
      if (run.log_evidence !== null) add("log evidence", logText(run.log_evidence));
      if (run.ess !== null) add("final ESS", run.ess.toFixed(1));
      if (run.tokens !== null) add("tokens", run.tokens.toLocaleString("en"));
      if (run.seconds !== null) add("seconds", run.seconds.toFixed(1));
    }
    if (attempt && attempt.cost) add("planner", "$" + attempt.cost.toFixed(4));
    if (record.seed !== null && run) add("seed", String(record.seed));
    return el("dl", { class: "facts" }, ...list);
  }

  problem() {
    const out = [];
    const { attempt, run } = this;
    if (attempt && attempt.error) {
      const error = el("div", { class: "error" }, el("strong", {}, "✕ " + attempt.outcome), el("p", {}, attempt.error));
      if (attempt.traceback) error.append(el("details", {}, el("summary", {}, "Traceback"), el("pre", { tabindex: "0" }, attempt.traceback)));
      out.push(error);
    }
    if (run && run.printed) out.push(el("details", {}, el("summary", {}, "What the program printed"), el("pre", { tabindex: "0" }, run.printed)));
    const cut = (run && run.cut) || {};
    const said = {
      untold: "steps came without their particles", forgotten: "steps lost their particles to a later run",
      steps: "steps were left out", final: "final particles were left out", printed: "printed characters were left out",
    };
    const told = Object.entries(cut).map(([name, count]) => count + " " + (said[name] || name));
    if (told.length) out.push(el("p", { class: "cut" }, "This record is cut, to stay small: " + told.join("; ") + "."));
    return out;
  }

  build() {
    const node = answerNode(this.out, this.own() ? this.record.answer : null);
    this.best = node ? lineage(this.out, ...node) : null;
    this.path = this.best;
    this.ribbon = el("div", { class: "ribbon", role: "group", "aria-label": "The chosen lineage, step by step" });
    this.caption = el("p", { class: "caption" });

    const canvas = el("canvas", { role: "img" }), chart = el("canvas", { class: "chart", role: "img" });
    const label = `Genealogy of ${this.out.n} particles over ${this.frames()} steps; the list of particles below says the same in words.`;
    canvas.setAttribute("aria-label", label);
    chart.setAttribute("aria-label", "Effective sample size and log weights over the steps; the table of all steps has the numbers.");
    this.box = el("div", { class: "tree", tabindex: "0", role: "region", "aria-label": "Genealogy of " + this.title + ": arrow keys step and choose" }, el("div", { class: "spacer" }, canvas));
    this.tip = el("div", { class: "tip", hidden: "", "aria-hidden": "true" });
    this.picture = new Genealogy(this.out, this.box, canvas, chart);
    this.bar = this.toolbar();
    const key = el("p", { class: "key" });
    for (const [name, text] of [["k-run", "● running"], ["k-end", "■ ended"], ["k-dead", "✕ dead"], ["k-answer", "━ chosen lineage"], ["k-ess", "▼ resampled"]]) key.append(el("span", { class: name }, text), " ");
    const tree = el("div", { class: "picture" }, this.bar, this.box, el("p", { class: "axis" }, "ESS above, log weights below: median, range, and the chosen lineage's"), chart, key, this.tip);

    this.list = el("ul", { class: "particles", role: "listbox", tabindex: "0", "aria-label": "Particles at this step" });
    this.rows = Array.from({ length: this.out.n }, (_, k) => this.listRow(k));
    this.list.append(...this.rows.map((r) => r.item));
    this.why = el("div", { class: "why", tabindex: "0", role: "group", "aria-label": "What changed its weight" });
    const source = this.attempt && this.attempt.program;
    const aside = el("div", { class: "aside" }, el("h3", {}, "What changed its weight"), this.why);
    if (source) {
      this.program = new ProgramView(source, this.failedLine(), this.title);
      aside.append(el("h3", {}, "Program"), this.program.box);
    }
    this.count = el("p", { class: "quiet" });
    const particles = el("div", { class: "crowd" }, el("h3", {}, "Particles"), this.count, this.list, this.table());
    this.root.append(this.ribbon, this.caption, el("div", { class: "grid" }, tree, aside, particles));
    this.listen(canvas);
    this.fillRibbon();
  }

  // Whether this is the run that the record's answer came from.
  own() {
    const { record, attempt } = this;
    return record.answer && (!attempt || attempt.outcome === "ok" || record.runs.length === 1);
  }

  toolbar() {
    const button = (text, action, pressed) => {
      const made = el("button", { type: "button", ...(pressed === undefined ? {} : { "aria-pressed": String(pressed) }) }, text);
      made.addEventListener("click", () => action(made));
      return made;
    };
    const toggle = (made, on) => made.setAttribute("aria-pressed", String(on));
    this.wordsButton = button("Words", (made) => {
      this.picture.words = !this.picture.words;
      toggle(made, this.picture.words);
      this.layout();
    }, false);
    this.onlyButton = button("Only this lineage", (made) => {
      this.only = !this.only;
      toggle(made, this.only);
      this.show(this.at);
    }, false);
    this.orderButton = button("By weight", (made) => {
      this.byWeight = !this.byWeight;
      toggle(made, this.byWeight);
      this.show(this.at);
    }, false);
    this.answerButton = button("Answer’s lineage", () => this.choose(null));
    return el("div", { class: "tools" }, this.wordsButton, this.onlyButton, this.orderButton, this.answerButton);
  }

  listRow(k) {
    const parts = {
      state: el("span", { class: "state" }), number: el("span", { class: "rank" }), weight: el("span", { class: "weight" }),
      fill: el("span", { class: "fill" }), old: el("span", { class: "old" }), fresh: el("mark", {}), drop: el("span", { class: "drop" }),
    };
    parts.item = el("li", { role: "option", "aria-selected": "false", id: uid("particle") },
      parts.state, parts.number, el("span", { class: "share" }, parts.fill), parts.weight, el("span", { class: "text" }, parts.old, parts.fresh), parts.drop);
    parts.item.addEventListener("click", () => this.choose([this.at, parts.index]));
    return parts;
  }

  // Every step in numbers, made when it is asked for.
  table() {
    const details = el("details", { class: "numbers" }, el("summary", {}, "All steps in numbers"));
    details.addEventListener("toggle", () => {
      if (!details.open || details.querySelector("table")) return;
      const head = el("tr", {}, ...["step", "running", "ended", "ESS", "tokens", "seconds", "median log weight"].map((h) => el("th", { scope: "col" }, h)));
      const body = this.out.frames.map((frame, f) => el("tr", {},
        ...[frame.step, frame.alive, frame.finished, (frame.ess || 0).toFixed(1), frame.tokens, frame.seconds.toFixed(2), logText(this.picture.spread()[f][2])].map((v) => el("td", {}, String(v)))));
      details.append(el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "All steps in numbers of " + this.title }, el("table", {}, el("thead", {}, head), el("tbody", {}, ...body))));
    });
    return details;
  }

  listen(canvas) {
    const { box, tip } = this;
    box.addEventListener("scroll", () => (this.picture.scrolled(), this.draw()), { passive: true });
    canvas.addEventListener("click", (event) => {
      const hit = this.picture.at(event.clientX, event.clientY);
      if (!hit) return;
      this.choose(hit);
      app.go(hit[0], this);
    });
    canvas.addEventListener("pointermove", (event) => {
      const hit = this.picture.at(event.clientX, event.clientY);
      tip.hidden = !hit;
      if (!hit) return;
      if (!this.hit || this.hit[0] !== hit[0] || this.hit[1] !== hit[1]) tip.replaceChildren(...this.told(...hit, true));
      this.hit = hit;
      const place = tip.parentElement.getBoundingClientRect();
      const [x, y] = [event.clientX - place.left, event.clientY - place.top];
      tip.style.left = Math.max(4, Math.min(x + 14, place.width - tip.offsetWidth - 4)) + "px";
      tip.style.top = (y + 18 + tip.offsetHeight > place.height && y > tip.offsetHeight ? y - tip.offsetHeight - 12 : y + 18) + "px";
    });
    canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  }

  // Choose a particle's lineage; without one, the answer's.
  choose(node) {
    this.node = node;
    this.path = node ? lineage(this.out, ...node) : this.best;
    this.fillRibbon();
    this.show(this.at);
  }

  // The next particle above or below the chosen one.
  move(by) {
    const shown = this.rows.filter((r) => !r.item.hidden);
    const now = shown.findIndex((r) => r.index === this.path?.[this.at]);
    const next = shown[Math.max(0, Math.min(shown.length - 1, now + by))];
    if (next) this.choose([this.at, next.index]);
    this.picture.reveal(this.at, next?.index);
  }

  layout() {
    if (!this.frames()) return;
    this.picture.layout();
    this.wordsButton.hidden = this.picture.readable() && !this.picture.words;
    this.picture.reveal(this.at, this.path ? this.path[this.at] : undefined);
    this.draw();
  }

  recolour() {
    if (!this.frames()) return;
    this.picture.recolour();
    this.draw();
  }

  draw() {
    this.picture.draw(this.at, this.path, this.node);
  }

  // The lineage's text, a piece for each step, underlined by what the piece cost.
  fillRibbon() {
    const { frames } = this.out;
    this.pieces = [];
    const children = [];
    for (let f = 0; f < frames.length; f++) {
      const i = this.path ? this.path[f] : -1;
      if (i < 0) continue;
      const text = frames[f].added[i];
      if (!text) continue;
      const total = frames[f].total[i];
      const piece = el("span", { role: "button", tabindex: children.length ? "-1" : "0", "data-frame": f, title: `step ${frames[f].step}: ${signed(total)}` }, text);
      piece.dataset.cost = total < -6 ? "3" : total < -2.5 ? "2" : total < -0.7 ? "1" : "0";
      piece.addEventListener("click", () => app.go(f, this));
      piece.addEventListener("keydown", (event) => event.key === "Enter" && app.go(f, this));
      piece.addEventListener("focus", () => this.explain(f, i));
      this.pieces[f] = piece;
      children.push(piece);
    }
    this.ribbon.replaceChildren(...children);
  }

  show(at) {
    if (!this.frames()) return;
    this.at = Math.max(0, Math.min(this.frames() - 1, at));
    const frame = this.out.frames[this.at];
    const mine = this.path ? this.path[this.at] : -1;
    this.pieces.forEach((piece, f) => {
      piece.classList.toggle("now", f === this.at);
      piece.classList.toggle("later", f > this.at);
      if (f === this.at) piece.setAttribute("aria-current", "step");
      else piece.removeAttribute("aria-current");
    });
    const who = this.node ? `Particle ${mine + 1} at step ${frame.step}` : this.record.answer && this.own() ? "The answer’s lineage" : "The heaviest lineage";
    this.caption.textContent = mine < 0 ? who + ": it has no particle at this step." : `${who}: ${percent(frame.share[mine])} of the weight. ${verdict(this.out, this.at, mine)}`;
    this.fillList(frame, mine);
    this.explain(this.at, mine);
    if (this.program) this.program.show(this.out, this.at, mine);
    this.picture.reveal(this.at, mine);
    this.draw();
    const now = this.pieces[this.at];
    // Asking for a place lays the page out: only where the text is too long to be seen as a whole.
    if (now && this.ribbon.textContent.length > 250) this.ribbon.scrollTop = now.offsetTop - this.ribbon.offsetTop - 40;
  }

  fillList(frame, mine) {
    const order = Array.from({ length: frame.n }, (_, i) => i);
    if (this.byWeight) order.sort((a, b) => frame.share[b] - frame.share[a] || a - b);
    const [f, i] = this.node || [this.at, mine];
    const kin = this.only && i >= 0 ? related(this.out, f, i, this.at) : null;
    let shown = 0;
    this.rows.forEach((row, k) => {
      const index = order[k];
      const hidden = index === undefined || (kin && !kin.has(index));
      if (row.item.hidden !== hidden) row.item.hidden = hidden;
      if (hidden) return;
      shown++;
      row.index = index;
      const text = frame.text[index], added = frame.added[index];
      const fresh = added.length ? text.slice(-added.length) : "";
      const old = text.slice(0, text.length - fresh.length);
      put(row.state, GLYPHS[frame.state[index]]);
      row.item.dataset.state = frame.state[index];
      put(row.number, String(index + 1));
      put(row.weight, percent(frame.share[index]));
      row.fill.style.transform = `scaleX(${frame.share[index]})`;
      put(row.old, old.length > TAIL ? "…" + old.slice(-TAIL) : old);
      put(row.fresh, fresh);
      put(row.drop, frame.total[index] < -0.7 || frame.state[index] === DEAD ? verdict(this.out, this.at, index) : "");
      const chosen = String(index === mine);
      if (row.item.getAttribute("aria-selected") !== chosen) row.item.setAttribute("aria-selected", chosen);
      if (index === mine) this.list.setAttribute("aria-activedescendant", row.item.id);
    });
    put(this.count, `${shown} of ${frame.n} shown; ${frame.alive} running, ${frame.finished} ended, ESS ${(frame.ess || 0).toFixed(1)}`);
  }

  explain(f, i) {
    this.why.replaceChildren(...(i < 0 ? [el("p", { class: "quiet" }, "Choose a particle.")] : this.told(f, i, false)));
  }

  // What is known of one particle after one step.
  told(f, i, brief) {
    const frame = this.out.frames[f];
    const parts = [el("p", { class: "said" }, el("strong", {}, `${GLYPHS[frame.state[i]]} Particle ${i + 1}, step ${frame.step}`), ` ${STATES[frame.state[i]]}, ${percent(frame.share[i])} of the weight, log weight ${logText(frame.logWeight[i])}`)];
    const text = frame.text[i], added = frame.added[i];
    const old = text.slice(0, text.length - added.length);
    parts.push(el("p", { class: "text" }, brief && old.length > 120 ? "…" + old.slice(-120) : old, el("mark", {}, added)));
    parts.push(el("p", { class: "verdict" }, verdict(this.out, f, i)));
    const changes = changesOf(this.out, f, i);
    const most = Math.max(1, ...changes.map((c) => (Number.isFinite(c.amount) ? Math.abs(c.amount) : 8)));
    const list = el("ul", { class: "changes" });
    for (const change of brief ? changes.slice().sort((a, b) => a.amount - b.amount).slice(0, 4) : changes) {
      const bar = el("span", { class: change.amount < 0 ? "bar minus" : "bar plus" });
      bar.style.transform = `scaleX(${Math.min(1, (Number.isFinite(change.amount) ? Math.abs(change.amount) : most) / most)})`;
      list.append(el("li", {}, el("span", { class: "amount" }, signed(change.amount)), el("span", { class: "track" }, bar), el("span", {}, because(change) + (change.line ? `, line ${change.line}` : ""))));
    }
    if (changes.length) parts.push(list);
    if (frame.hint[i]) parts.push(el("p", { class: "hint" }, "Hint in force: " + frame.hint[i]));
    const masks = [...new Set(changes.map((c) => c.masks).filter(Boolean))];
    if (masks.length) parts.push(el("p", { class: "hint" }, "Masks in force: " + masks.join(" · ")));
    return parts;
  }
}

let _ids = 0;
const uid = (name) => name + "-" + ++_ids;

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
