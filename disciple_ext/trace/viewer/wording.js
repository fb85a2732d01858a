// What is said of weights and of what changed them. Everything goes into the page as text.

function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const GLYPHS = { [RUNNING]: "●", [ENDED]: "■", [DEAD]: "✕" };
const STATES = { [RUNNING]: "running", [ENDED]: "ended", [DEAD]: "dead" };

const signed = (x) => (x === -Infinity ? "−∞" : (x < 0 ? "−" : "+") + Math.abs(x).toFixed(2));
const logText = (x) => (x === -Infinity ? "−∞" : signed(x).replace("+", ""));
const percent = (share) => (share === 0 ? "0" : share < 0.001 ? "<0.1" : (100 * share).toFixed(share < 0.1 ? 1 : 0)) + " %";

function factor(log) {
  if (log === -Infinity) return "× 0";
  const x = Math.exp(log);
  if (x >= 0.01 && x < 1000) return "× " + x.toPrecision(2);
  return log < 0 ? "× 1/" + compact(1 / x) : "× " + compact(x);
}

const compact = (x) => (x >= 1e6 ? x.toExponential(0).replace("e+", "e") : Math.round(x).toLocaleString("en"));

// The changes of a particle's weight in a step: [{cause, line, masks, what, amount}].
function changesOf(out, f, i) {
  const { sources, strings } = out.run;
  const flat = out.frames[f].changes[i] || [];
  const list = [];
  for (let k = 0; k < flat.length; k += 2) {
    const [cause, line, masks, what] = sources[flat[k]];
    const amount = flat[k + 1] === null ? -Infinity : flat[k + 1];
    list.push({ cause: strings[cause], line, masks: strings[masks], what: strings[what], amount });
  }
  return list;
}

const quoted = (text) => "“" + visible(text) + "”";
const visible = (text) => text.replace(/\n/g, "⏎").replace(/\t/g, "⇥");

function because(change) {
  const { cause, what, masks } = change;
  switch (cause) {
    case "force": return "the program forced " + quoted(what);
    case "observe": return "it observed " + (what || "a fact");
    case "end": return "the text was closed here";
    case "draw": return masks ? "a draw under " + masks : what && what !== "text" ? "a draw within (" + what + ")" : "a draw";
    case "branch": return "a choice, " + what;
    case "score": return "the program scored it";
    case "twist": return "a twist, taken back at the next step";
    case "weigh": return "weighed by " + what;
    case "condition_false": return "a condition was false";
    case "impossible_mask": return what || "no token was possible";
    default: return cause.replace(/_/g, " ") + (what ? ": " + what : "");
  }
}

// One sentence on what became of a particle in a step.
function verdict(out, f, i) {
  const frame = out.frames[f];
  const changes = changesOf(out, f, i);
  const total = frame.total[i];
  const end = out.ends.get(f + ":" + i);
  if (frame.state[i] === DEAD) {
    const death = changes.find((c) => c.amount === -Infinity);
    return end ? "It died: " + (end.reason || end.kind) : death ? "It died: " + because(death) : "It is dead.";
  }
  if (!changes.length) return frame.state[i] === ENDED ? "It has ended." : "Its weight did not change.";
  const worst = changes.reduce((a, b) => (b.amount < a.amount ? b : a));
  const all = signed(total) + " (" + factor(total) + ")";
  if (worst.amount > -0.7) return "Its log weight changed by " + all + ".";
  return "Its log weight changed by " + all + ", mostly as " + because(worst) + (worst.line ? ", line " + worst.line : "") + ".";
}
