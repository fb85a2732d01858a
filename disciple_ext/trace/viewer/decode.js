// A run of the record as arrays: a frame for each step whose particles were told.

const RUNNING = "r", ENDED = "e", DEAD = "d";

function decodeRun(run) {
  const frames = [];
  const frameOf = new Map();
  for (const step of run.steps) {
    if (!step.rows) continue;
    const frame = decodeStep(run, step, frames, frameOf);
    frameOf.set(step.step, frames.length);
    frames.push(frame);
  }
  const out = { run, frames, n: Math.max(1, ...frames.map((f) => f.n)), ends: new Map() };
  for (const [step, index, kind, reason] of run.ends) {
    if (frameOf.has(step)) {
      const why = { kind: run.strings[kind], reason: run.strings[reason] };
      out.ends.set(frameOf.get(step) + ":" + index, why);
    }
  }
  out.resampled = run.resampled
    .filter((r) => frameOf.has(r.after))
    .map((r) => ({ frame: frameOf.get(r.after), ess: r.ess, ancestors: r.ancestors }));
  out.frameOf = frameOf;
  markSurvivors(out);
  return out;
}

function decodeStep(run, step, frames, frameOf) {
  const rows = step.rows, n = rows.from.length, at = frames.length;
  const frame = {
    step: step.step, ess: step.ess, alive: step.alive, finished: step.finished,
    tokens: step.tokens, seconds: step.seconds, n, state: rows.state,
    parent: new Int32Array(n), parentFrame: new Int32Array(n),
    logWeight: Float64Array.from(rows.log_weight, (w) => (w === null ? -Infinity : w)),
    logPrior: rows.log_prior, logProposal: rows.log_proposal,
    added: rows.add.map((s) => run.strings[s]), text: new Array(n), changes: rows.changes,
    hint: (rows.hint || []).map((s) => run.strings[s]), line: rows.line || [],
    children: Array.from({ length: n }, () => []), depth: new Int32Array(n),
    survives: new Uint8Array(n), fresh: new Uint8Array(n),
    total: Float64Array.from(rows.changes, totalOf),
  };
  const kept = rows.kept || {};
  for (let i = 0; i < n; i++) {
    const origin = rows.from[i];
    let parent = -1, parentFrame = -1;
    if (Array.isArray(origin)) {
      if (frameOf.has(origin[0])) [parentFrame, parent] = [frameOf.get(origin[0]), origin[1]];
    } else if (origin >= 0) {
      [parentFrame, parent] = [at - 1, origin];
    }
    const before = parent >= 0 ? frames[parentFrame].text[parent] : "";
    frame.fresh[i] = parent < 0 || frames[parentFrame].state[parent] !== rows.state[i] ? 1 : 0;
    frame.parent[i] = parent;
    frame.parentFrame[i] = parentFrame;
    frame.text[i] = (i in kept ? "" : before) + frame.added[i];
    if (parent >= 0) frames[parentFrame].children[parent].push([at, i]);
  }
  frame.share = shares(frame.logWeight);
  return frame;
}

// The sum of a particle's changes: amounts stand at the odd places, null is minus infinity.
function totalOf(flat) {
  let sum = 0;
  for (let k = 1; k < flat.length; k += 2) sum += flat[k] === null ? -Infinity : flat[k];
  return sum;
}

// Each particle's share of the weight, from natural logs.
function shares(logWeights) {
  const most = Math.max(...logWeights);
  const out = new Float64Array(logWeights.length);
  if (!Number.isFinite(most)) return out;
  let sum = 0;
  for (let i = 0; i < out.length; i++) sum += out[i] = Math.exp(logWeights[i] - most);
  for (let i = 0; i < out.length; i++) out[i] /= sum;
  return out;
}

// Which particles have a descendant in the final population, and how far each branch goes on.
function markSurvivors(out) {
  const { frames, run } = out;
  const marked = [];
  for (const particle of run.final) {
    if (particle.weight > 0 && particle.from && out.frameOf.has(particle.from[0])) {
      marked.push([out.frameOf.get(particle.from[0]), particle.from[1]]);
    }
  }
  if (!run.final.length && frames.length) {
    const last = frames.length - 1;
    for (let i = 0; i < frames[last].n; i++) if (frames[last].state[i] !== DEAD) marked.push([last, i]);
  }
  for (let [f, i] of marked) {
    while (i >= 0 && f >= 0 && i < frames[f].n && !frames[f].survives[i]) {
      frames[f].survives[i] = 1;
      [f, i] = [frames[f].parentFrame[i], frames[f].parent[i]];
    }
  }
  for (let f = frames.length - 1; f >= 0; f--) {
    for (let i = 0; i < frames[f].n; i++) {
      for (const [g, j] of frames[f].children[i]) {
        frames[f].depth[i] = Math.max(frames[f].depth[i], frames[g].depth[j] + g - f);
      }
    }
  }
}

// The lineage through a particle: a row for each frame, -1 where it has none.
function lineage(out, f, i) {
  const { frames } = out;
  const path = new Int32Array(frames.length).fill(-1);
  for (let g = f, j = i; j >= 0; ) {
    path[g] = j;
    [g, j] = [frames[g].parentFrame[j], frames[g].parent[j]];
  }
  const better = ([g, j]) => frames[g].survives[j] * 1e6 + frames[g].depth[j] + frames[g].share[j];
  for (let g = f, j = i; ; ) {
    const next = frames[g].children[j].slice().sort((a, b) => better(b) - better(a))[0];
    if (!next) break;
    [g, j] = next;
    path[g] = j;
  }
  return path;
}

// The last particle of the lineage of the answer (or of the heaviest particle): [frame, row].
function answerNode(out, answer) {
  const { frames, run } = out;
  const placed = run.final.filter((p) => p.from && out.frameOf.has(p.from[0]) && p.weight > 0);
  const mine = placed.filter((p) => answer && p.text === answer.text);
  const best = (mine.length ? mine : placed).reduce((a, b) => (a && a.weight >= b.weight ? a : b), null);
  if (best) return [out.frameOf.get(best.from[0]), best.from[1]];
  if (!frames.length) return null;
  const last = frames[frames.length - 1];
  return [frames.length - 1, last.logWeight.indexOf(Math.max(...last.logWeight))];
}

// Every particle of one frame that is an ancestor or a descendant of (or is) a particle.
function related(out, f, i, at) {
  const { frames } = out;
  if (at <= f) {
    let [g, j] = [f, i];
    while (j >= 0 && g > at) [g, j] = [frames[g].parentFrame[j], frames[g].parent[j]];
    return new Set(g === at && j >= 0 ? [j] : []);
  }
  let here = [[f, i]];
  const found = new Set();
  while (here.length) {
    const next = [];
    for (const [g, j] of here) {
      for (const child of frames[g].children[j]) {
        if (child[0] === at) found.add(child[1]);
        else if (child[0] < at) next.push(child);
      }
    }
    here = next;
  }
  return found;
}
