// The program: its lines, coloured a little, and which of them changed weights in a step.

const PYTHON = /("""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|[rbf]?"(?:\\.|[^"\\\n])*"?|[rbf]?'(?:\\.|[^'\\\n])*'?)|(#[^\n]*)|\b(False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\b|\b(self|cls)\b|\b(\d[\d_.]*)\b/g;
const KINDS = ["", "string", "comment", "keyword", "self", "number"];

// [kind, text] pieces of each line.
function coloured(source) {
  const lines = [[]];
  const add = (kind, text) => {
    text.split("\n").forEach((part, k) => {
      if (k) lines.push([]);
      if (part) lines[lines.length - 1].push([kind, part]);
    });
  };
  let end = 0;
  for (const match of source.matchAll(PYTHON)) {
    add("", source.slice(end, match.index));
    add(KINDS[match.findIndex((group, k) => k && group !== undefined)], match[0]);
    end = match.index + match[0].length;
  }
  add("", source.slice(end));
  return lines;
}

class ProgramView {
  constructor(source, failedLine, title) {
    this.lines = coloured(source.replace(/\n+$/, "")).map((pieces, k) => {
      const mark = el("span", { class: "mark" });
      const bar = el("span", { class: "bar" });
      const code = el("span", { class: "code" }, ...pieces.map(([kind, text]) => (kind ? el("span", { class: kind }, text) : text)));
      const number = el("span", { class: "number" }, String(k + 1));
      const line = el("span", { class: "line" }, mark, number, bar, code, "\n");
      if (k + 1 === failedLine) {
        line.classList.add("failed");
        mark.textContent = "!";
      }
      return { line, mark, bar };
    });
    this.failed = failedLine;
    this.box = el("pre", { class: "program", tabindex: "0", role: "region", "aria-label": "Program of " + title }, ...this.lines.map((l) => l.line));
    this.marked = [];
    this.box.addEventListener("scroll", () => (this.scrolled = this.box.scrollTop), { passive: true });
  }

  // Mark the lines that changed weights in a frame: how many particles, and the chosen one's.
  show(out, f, chosen) {
    for (const { line, mark, bar } of this.marked) {
      line.classList.remove("ran", "mine");
      if (!line.classList.contains("failed")) mark.textContent = "";
      bar.style.transform = "scaleX(0)";
      line.removeAttribute("title");
    }
    this.marked = [];
    const counts = new Map(), mine = new Set(), frame = out.frames[f];
    for (let i = 0; i < frame.n; i++) {
      const lines = new Set(changesOf(out, f, i).map((c) => c.line));
      if (frame.line[i]) lines.add(frame.line[i]);
      for (const line of lines) {
        counts.set(line, (counts.get(line) || 0) + 1);
        if (i === chosen) mine.add(line);
      }
    }
    for (const [number, count] of counts) {
      const entry = this.lines[number - 1];
      if (!entry) continue;
      entry.line.classList.add("ran");
      entry.bar.style.transform = `scaleX(${count / frame.n})`;
      entry.line.title = `${count} of ${frame.n} particles`;
      if (mine.has(number)) {
        entry.line.classList.add("mine");
        entry.mark.textContent = "▶";
      }
      this.marked.push(entry);
    }
    const first = Math.min(...(mine.size ? mine : counts.keys()));
    if (Number.isFinite(first) && first > 0 && this.lines[first - 1]) this.reveal(first);
  }

  // Scroll to a line; its place is reckoned, for asking would have the page laid out twice.
  reveal(number) {
    this.high ??= this.lines[0].line.offsetHeight;
    this.room ??= this.box.clientHeight;
    const top = this.high * (number - 1);
    const now = this.scrolled ?? 0;
    if (top < now + 20 || top > now + this.room - 60) {
      this.scrolled = Math.max(0, Math.round(top - this.room / 3));
      this.box.scrollTop = this.scrolled;
    }
  }
}
