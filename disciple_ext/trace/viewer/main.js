// The page: attempts in tabs, one or two runs, and the steps that they share.

const app = {
  records: JSON.parse(document.getElementById("records").textContent),
  stages: [],
  at: 0,
  timer: null,

  start() {
    this.choices = this.records.flatMap((entry, r) => choicesOf(entry, r, this.records.length > 1));
    const first = this.records[0].data;
    byId("task").textContent = first.task || "Trace of a run";
    byId("about").textContent = ["disciple-ext " + first.version, first.follower && "follower " + first.follower].filter(Boolean).join(" · ");
    document.title = "Trace: " + (first.task || "a run").slice(0, 80);
    this.tabs();
    this.bind();
    const ours = this.choices.filter((c) => c.record === first);
    const good = ours.filter((c) => c.run);
    this.left = good[good.length - 1] || ours[ours.length - 1] || null;
    const second = this.records.length > 1 && this.choices.filter((c) => c.record !== first && c.run).pop();
    this.right = second || null;
    this.render();
  },

  tabs() {
    const list = byId("tabs");
    this.buttons = this.choices.map((choice, k) => {
      const tab = el("button", { type: "button", role: "tab", id: "tab-" + k, "aria-controls": "stages", "aria-selected": "false", tabindex: "-1" }, choice.name);
      tab.addEventListener("click", () => this.open(choice));
      tab.addEventListener("keydown", (event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!by) return;
        event.stopPropagation();
        event.preventDefault();
        const next = this.buttons[(k + by + this.buttons.length) % this.buttons.length];
        next.focus();
        next.click();
      });
      return tab;
    });
    list.append(...this.buttons);
    byId("attempts").hidden = this.choices.length < 2;
    const against = byId("against");
    against.append(el("option", { value: "" }, "nothing"), ...this.choices.map((c, k) => (c.run ? el("option", { value: String(k) }, c.name) : "")).filter(Boolean));
    against.addEventListener("change", () => {
      this.right = this.choices[against.value === "" ? -1 : Number(against.value)] || null;
      this.render();
    });
    byId("other").hidden = this.choices.filter((c) => c.run).length < 2;
  },

  open(choice) {
    this.left = choice;
    this.render();
  },

  render() {
    this.pause();
    this.buttons.forEach((button, k) => {
      const on = this.choices[k] === this.left;
      button.setAttribute("aria-selected", String(on));
      button.tabIndex = on ? 0 : -1;
    });
    byId("against").value = this.right ? String(this.choices.indexOf(this.right)) : "";
    this.stages = [this.left, this.right].filter(Boolean).map((c) => new Stage(c.record, c.attempt, c.run, c.name));
    const main = byId("stages");
    main.replaceChildren(...this.stages.map((s) => s.root));
    main.classList.toggle("two", this.stages.length > 1);
    this.focus = this.stages[0];
    this.steps = Math.max(0, ...this.stages.map((s) => s.frames()));
    byId("step").max = Math.max(0, this.steps - 1);
    byId("transport").hidden = this.steps === 0;
    this.stages.forEach((s) => s.layout());
    this.go(this.steps - 1);
    document.body.dataset.ready = "true";
  },

  // Show step number `at`, counted from 0, in every run.
  go(at, stage) {
    if (!this.steps) return;
    if (stage) this.focus = stage;
    this.at = Math.max(0, Math.min(this.steps - 1, at));
    this.stages.forEach((s) => s.show(this.at));
    const slider = byId("step"), frame = this.longest().out.frames[this.at];
    slider.value = this.at;
    slider.setAttribute("aria-valuetext", "step " + frame.step);
    byId("where").textContent = `step ${frame.step} (${this.at + 1} of ${this.steps})`;
    byId("first").disabled = byId("back").disabled = this.at === 0;
    byId("last").disabled = byId("next").disabled = this.at === this.steps - 1;
  },

  longest() {
    return this.stages.reduce((a, b) => (b.frames() > a.frames() ? b : a));
  },

  play() {
    if (this.at >= this.steps - 1) this.go(0);
    const pace = 450 / Number(byId("speed").value);
    this.timer = setInterval(() => (this.at >= this.steps - 1 ? this.pause() : this.go(this.at + 1)), pace);
    this.playing(true);
  },

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.playing(false);
  },

  playing(on) {
    const button = byId("play");
    button.textContent = on ? "⏸ Pause" : "▶ Play";
    button.setAttribute("aria-label", on ? "Pause" : "Play");
  },

  toggle() {
    if (this.timer) this.pause();
    else this.play();
  },

  bind() {
    const click = (id, action) => byId(id).addEventListener("click", action);
    click("first", () => this.go(0));
    click("back", () => this.go(this.at - 1));
    click("next", () => this.go(this.at + 1));
    click("last", () => this.go(this.steps - 1));
    click("play", () => this.toggle());
    byId("step").addEventListener("input", (event) => this.go(Number(event.target.value)));
    byId("speed").addEventListener("change", () => this.timer && (this.pause(), this.play()));
    document.addEventListener("keydown", (event) => this.key(event));
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const theme = byId("theme");
    const say = () => {
      const on = isDark();
      theme.setAttribute("aria-pressed", String(on));
      this.stages.forEach((s) => s.recolour());
    };
    theme.addEventListener("click", () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      say();
    });
    const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
    dark.addEventListener("change", say);
    theme.setAttribute("aria-pressed", String(isDark()));
    let waiting = 0;
    addEventListener("resize", () => {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(() => this.stages.forEach((s) => s.layout()));
    });
  },

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const tag = event.target.tagName;
    if (tag === "SELECT" || tag === "TEXTAREA") return;
    const slides = tag === "INPUT";
    const stage = this.stages.find((s) => s.root.contains(event.target)) || this.focus;
    const acts = {
      ArrowLeft: () => this.go(this.at - 1),
      ArrowRight: () => this.go(this.at + 1),
      Home: () => this.go(0),
      End: () => this.go(this.steps - 1),
      ArrowUp: () => stage?.frames() && stage.move(-1),
      ArrowDown: () => stage?.frames() && stage.move(1),
      Escape: () => this.stages.forEach((s) => s.frames() && s.choose(null)),
      " ": () => this.toggle(),
    };
    const inPage = ["ArrowUp", "ArrowDown"].includes(event.key);
    if (!acts[event.key] || (slides && event.key !== " ") || !this.steps) return;
    if (event.key === " " && (tag === "BUTTON" || tag === "SUMMARY")) return;
    // Up and down choose a particle in the genealogy and the list, and scroll the page elsewhere.
    if (inPage && !event.target.closest(".tree, .particles")) return;
    event.preventDefault();
    acts[event.key]();
  },
};

const byId = (id) => document.getElementById(id);

// What a record offers: each attempt with its run, and runs outside of attempts.
function choicesOf({ name, data }, r, several) {
  const label = (text) => (several ? (name || "file " + (r + 1)) + ": " : "") + text;
  const out = data.attempts.flatMap((attempt) => {
    const runs = data.runs.filter((run) => run.attempt === attempt.number);
    const text = attempt.number + " · " + (attempt.outcome || "unfinished");
    return (runs.length ? runs : [null]).map((run) => ({ record: data, attempt, run, name: label(text) }));
  });
  const lone = data.runs.filter((run) => !data.attempts.some((a) => a.number === run.attempt));
  return [...out, ...lone.map((run) => ({ record: data, attempt: null, run, name: label("run") }))];
}

app.start();
