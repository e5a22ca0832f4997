// The timeline: layout, drawing, input, selection.

const STALLS = {semaphore: '#e2605b', event: '#d6589b', dependency: '#f0a13a', queue: '#8fa3b8', drain: '#a571c9', port: '#e3c22e', control: '#d4dae2'};
const PALETTE = ['#3b78c2', '#4a9d5b', '#c7762b', '#8060b8', '#2f9ea8', '#b5547a', '#7d8f2e', '#5a6fd0', '#a8652f', '#3d8f86', '#9a5bb0', '#5d8a3f', '#c2694f', '#4787a8', '#8c7a33', '#6f6aa8'];
const GUTTER = 158, RULER = 26, MARK = '#e8b400';
const POOL = 2, MEMORY = 0xff00, LOAD = 0xffffffff, LIBRARY = 255;
const $ = id => document.getElementById(id);
const canvas = $('view'), ctx = canvas.getContext('2d'), tip = $('tip');
const streams = META.header.streams, engines = META.engines;
let T, tracks = [], view = {a: 0, b: 1, y: 0}, size = {w: 0, h: 0, ratio: 1};
let classes = new Map(), colours = [], pcClass = [], posOf = [], over, alone, syncRows = new Map();
let selected = -1, links = [], box = null, drag = null, hovered = -1, matches = [], matchAt = -1, matchLanes = null, critLanes = null, pending = false;
const keys = new Set();

function classify() {
  streams.forEach((_, s) => {
    pcClass[s] = new Map();
    for (const pc in META.names[s] ?? {}) {
      const name = META.names[s][pc][0];
      if (!classes.has(name)) { classes.set(name, classes.size % LIBRARY); colours.push(PALETTE[colours.length % PALETTE.length]); }
      pcClass[s].set(Number(pc), classes.get(name));
    }
  });
}

function build() {
  const {I, T: W, S, C} = T;
  classify();
  const counters = by(C, 'which');
  const klass = r => pcClass[I.stream[r]].get(I.pc[r]) ?? 0;
  const data = rowsBy(I, r => I.flags[r] & 1), control = rowsBy(I, r => !(I.flags[r] & 1)), waits = rowsBy(W);
  // slices that start before their predecessor is over get a track of their own; of each, the part
  // that no earlier one covers counts as busy
  over = new Uint8Array(I.n); alone = new Uint32Array(I.n);
  for (const rows of data) {
    if (!inOrder(rows, I.start)) rows.sort((a, b) => I.start[a] - I.start[b] || a - b);
    let until = 0, end = 0;
    for (const r of rows) {
      const s = I.start[r], e = s + I.dur[r];
      alone[r] = Math.max(0, e - Math.max(s, until));
      until = Math.max(until, e);
      if (s < end) over[r] = 1; else end = e;
    }
  }
  let y = 6;
  const add = (kind, h, label, extra) => { tracks.push({kind, y, h, label, ...extra}); y += h; };
  const overlapped = s => {
    const rows = data[s].filter(r => over[r]);
    if (rows.length) { y += 1; add('slices', 15, '', {s, sub: 'overlapped', lane: new Lane(rows, I.start, I.dur, klass)}); }
  };
  streams.forEach((name, s) => {
    if (!data[s].length && !control[s].length && !waits[s].length) return;
    const dur = I.dur;
    if (s < engines) {
      add('slices', 24, name, {s, sub: 'data path', lane: new Lane(data[s].filter(r => !over[r]), I.start, dur, klass), head: true});
      overlapped(s);
      if (control[s].length) add('slices', 13, '', {s, sub: 'sequencer', lane: new Lane(control[s], I.start, dur, klass)});
      add('stalls', 9, '', {s, sub: 'stalls', lane: new Lane(waits[s], W.start, W.dur, r => W.cause[r])});
      if (s === 0 && I.n) { y += 2; add('rate', 30, '', {s, sub: 'of ' + rate(META.facts.pe[0] * META.facts.pe[1] * 2 * META.facts.engine_hz[0], 'FLOP/s'), lanes: tracks.filter(t => t.kind === 'slices' && t.sub !== 'sequencer').map(t => t.lane), weight: I.flops, peak: META.facts.pe[0] * META.facts.pe[1] * 2 * META.facts.engine_hz[0], unit: 'FLOP/s'}); }
      if (s === POOL) coreTracks(add, () => y++);
      y += 9;
    } else {
      add('slices', 19, name, {s, sub: '', lane: new Lane(data[s].filter(r => !over[r]), I.start, dur, klass), head: true});
      overlapped(s);
      if (counters.has(s)) add('step', 14, '', {...steps(counters.get(s), C), sub: 'pending', show: big, name: name + ' pending'});
      y += 4;
    }
  });
  const queues = tracks.filter(t => t.kind === 'slices' && t.s >= engines);
  if (queues.length) { add('rate', 30, 'DMA', {sub: 'of ' + rate(META.facts.dma_bytes_per_second, 'B/s'), lanes: queues.map(t => t.lane), weight: I.rd, peak: META.facts.dma_bytes_per_second, unit: 'B/s', head: true}); y += 8; }
  for (const t of tracks) if (t.kind === 'rate') t.sums = t.lanes.map(l => {
    const p = new Float64Array(l.n + 1);
    for (let i = 0; i < l.n; i++) p[i + 1] = p[i] + t.weight[l.rows[i]];
    return p;
  });
  ['SBUF', 'PSUM'].forEach((memory, m) => {
    if (!counters.has(MEMORY + m)) return;
    const step = steps(counters.get(MEMORY + m), C), show = v => (v / 100).toFixed(v < 1000 ? 2 : 1) + ' %';
    add('step', 24, memory, {...step, sub: 'in use, max ' + show(step.max), show, name: memory + ' in use', head: true});
    y += 4;
  });
  const byId = by(S, 'id');
  [...byId.keys()].sort((a, b) => a - b).forEach(id => {
    const step = steps(byId.get(id), S);
    syncRows.set(id, step.rows);
    add('step', 22, syncName(id), {...step, id, small: true, sub: 'max ' + big(step.max), show: String, head: true});
    y += 2;
  });
  tracks.height = y + 8;
  streams.forEach((_, s) => {
    let lo = Infinity, hi = -1;
    for (const set of [data[s], control[s]]) for (const r of set) { const x = I.index[r]; if (x < lo) lo = x; if (x > hi) hi = x; }
    const map = hi >= 0 ? new Int32Array(hi - lo + 1).fill(-1) : new Int32Array(0);
    for (const set of [data[s], control[s]]) for (const r of set) map[I.index[r] - lo] = r;
    posOf[s] = {lo: hi >= 0 ? lo : 0, map};
  });
}

// Rows of a table by the 16-bit key in one of its columns.
function by(table, column) {
  const key = table[column], count = new Uint32Array(1 << 16), out = new Map();
  for (let i = 0; i < table.n; i++) count[key[i]]++;
  for (let k = 0; k < count.length; k++) if (count[k]) out.set(k, new Uint32Array(count[k]));
  count.fill(0);
  for (let i = 0; i < table.n; i++) { const k = key[i]; out.get(k)[count[k]++] = i; }
  return out;
}
// A value over time from rows with ticks and values.
function steps(list, table) {
  const rows = list, n = rows.length, ticks = new Float64Array(n), values = new Uint32Array(n);
  if (!inOrder(rows, table.tick)) rows.sort((a, b) => table.tick[a] - table.tick[b] || a - b);
  let max = 1;
  for (let i = 0; i < n; i++) { const r = rows[i], v = table.value[r]; ticks[i] = table.tick[r]; values[i] = v; if (v > max) max = v; }
  return {rows, ticks, values, max};
}
// A row for each Q7 core that ran or got library code.
function coreTracks(add, gap) {
  const {Q} = T, cores = by(Q, 'core');
  [...cores.keys()].sort((a, b) => a - b).forEach(core => {
    gap();
    const klass = r => Q.pc[r] === LOAD ? LIBRARY : pcClass[POOL].get(Q.pc[r]) ?? 0;
    add('cores', 11, '', {s: POOL, core, sub: 'Q7 core ' + core, lane: new Lane(cores.get(core), Q.start, Q.dur, klass)});
  });
}

const rowOf = (s, index) => s === NONE || !posOf[s] ? -1 : posOf[s].map[index - posOf[s].lo] ?? -1;
const isTransfer = r => (T.I.flags[r] & 2) !== 0;
const waited = r => !isTransfer(r) && T.I.sync[r] !== NONE;
const granted = r => T.I.start[r] - T.I.granted[r];

// The tick at which the update became visible that row `r` waited for.
function releaseTick(r) {
  const {I, S} = T;
  if (isTransfer(r)) return I.start[r] - I.head[r];
  const rows = syncRows.get(I.sync[r]);
  if (!rows) return null;
  for (let i = rows.length - 1; i >= 0; i--) {
    const u = rows[i];
    if (S.by[u] === I.by[r] && S.byIndex[u] === I.byIndex[r] && S.tick[u] <= granted(r)) return S.tick[u];
  }
  return null;
}
const producer = r => { const p = rowOf(T.I.by[r], T.I.byIndex[r]); return p === r ? -1 : p; };
function consumers(r) {
  const {I} = T, s = I.stream[r], x = I.index[r], out = [];
  for (let i = 0; i < I.n && out.length < 200; i++) if (I.by[i] === s && I.byIndex[i] === x && i !== r) out.push(i);
  return out;
}

// Lanes of the data path and of the sequencer.
const halves = rows => [1, 0].map(want => new Lane(Uint32Array.from(rows.filter(r => (T.I.flags[r] & 1) === want)), T.I.start, T.I.dur, () => 0));

// As the summary: back from the last row to its cause, else to its predecessor in the stream.
function criticalPath() {
  const {I} = T, rows = streams.map(() => []);
  let r = -1, end = -1;
  for (let i = 0; i < I.n; i++) { const e = I.start[i] + I.life[i]; if (e > end) { end = e; r = i; } }
  for (let left = I.n; r >= 0 && left > 0; left--) {
    rows[I.stream[r]].push(r);
    const before = rowOf(I.stream[r], I.index[r] - 1);
    let next = before;
    if (isTransfer(r)) { if (before < 0 || I.start[before] + I.life[before] <= I.start[r] - I.head[r]) next = producer(r); }
    else if (waited(r) && I.head[r] > I.granted[r] && !I.issue[r]) { const p = producer(r); if (p >= 0) next = p; }
    if (next >= 0 && I.start[next] > I.start[r]) break;
    r = next;
  }
  return rows.map(l => halves(l.reverse()));
}

// ---- drawing

const X = t => GUTTER + (t - view.a) * (size.w - GUTTER) / (view.b - view.a);
const tickAt = x => view.a + (x - GUTTER) * (view.b - view.a) / (size.w - GUTTER);
const yOf = t => RULER + t.y - view.y;
function redraw() { if (!pending) { pending = true; requestAnimationFrame(draw); } }

function draw() {
  pending = false;
  move();
  const started = performance.now(), {w, h, ratio} = size;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = '#fff'; ctx.fillRect(0, 0, w, h);
  ctx.textBaseline = 'middle';
  grid();
  ctx.save(); ctx.beginPath(); ctx.rect(0, RULER, w, h - RULER); ctx.clip();
  for (const t of tracks) {
    const y = yOf(t);
    if (y > h || y + t.h < RULER) continue;
    if (t.head) { ctx.fillStyle = '#e8ebf0'; ctx.fillRect(0, Math.round(y) - 4.5, w, 1); }
    ctx.save(); ctx.beginPath(); ctx.rect(GUTTER, y - 3, w - GUTTER, t.h + 6); ctx.clip();
    ({slices: drawSlices, stalls: drawStalls, rate: drawRate, step: drawSteps, cores: drawCores})[t.kind](t, y);
    ctx.restore();
  }
  for (const [t, s, text] of META.notes) {
    const row = tracks.find(k => k.s === s);
    if (row && t >= view.a && t <= view.b) { ctx.fillStyle = '#c62828'; ctx.fillText('\u25bc', X(t) - 4, yOf(row) - 2); }
  }
  arrows();
  ctx.restore();
  gutter();
  if (box) {
    const a = X(box.a), b = X(box.b);
    ctx.fillStyle = '#3b78c218'; ctx.fillRect(a, RULER, b - a, h);
    ctx.strokeStyle = '#3b78c2'; ctx.strokeRect(a + .5, -1, b - a, h + 2);
  }
  if (META.end >= view.a && META.end <= view.b) { ctx.fillStyle = '#44506466'; ctx.fillRect(X(META.end), RULER, 1, h); }
  $('range').textContent = `${META.header.generation} · ${big(T.I.n)} slices · ${time(view.a)} to ${time(view.b)} (${time(view.b - view.a)})`;
  state.frames++; state.drawMs = performance.now() - started;
  if (keys.size) redraw();
}

function grid() {
  const span = ns(view.b - view.a), px = size.w - GUTTER, step0 = span / (px / 110), p = 10 ** Math.floor(Math.log10(step0));
  const step = p * [1, 2, 5, 10].find(m => m * p >= step0), scale = META.header.tick_hz / 1e9;
  ctx.font = '11px system-ui,sans-serif'; ctx.textAlign = 'left';
  for (let t = Math.ceil(ns(view.a) / step) * step; t <= ns(view.b); t += step) {
    const x = Math.round(X(t * scale)) + .5;
    ctx.fillStyle = '#eef0f3'; ctx.fillRect(x, RULER, 1, size.h);
    ctx.fillStyle = '#5b6472';
    const unit = step >= 1e5 ? [1e6, 'ms'] : step >= 100 ? [1e3, 'µs'] : [1, 'ns'];
    const digits = Math.max(0, -Math.floor(Math.log10(step / unit[0]) + 1e-9));
    ctx.fillText((t / unit[0]).toFixed(digits) + ' ' + unit[1], x + 3, RULER / 2);
  }
  ctx.fillStyle = '#d5d9e0'; ctx.fillRect(0, RULER - 1, size.w, 1);
}

function gutter() {
  ctx.save(); ctx.beginPath(); ctx.rect(0, RULER, GUTTER, size.h); ctx.clip();
  ctx.fillStyle = '#f5f6f8'; ctx.fillRect(0, RULER, GUTTER - 1, size.h);
  ctx.fillStyle = '#d5d9e0'; ctx.fillRect(GUTTER - 1, RULER, 1, size.h);
  for (const t of tracks) {
    const y = yOf(t);
    if (y > size.h || y + t.h < RULER) continue;
    if (t.head) { ctx.fillStyle = '#e0e4ea'; ctx.fillRect(0, Math.round(y) - 4.5, GUTTER - 1, 1); }
    if (t.label) { ctx.font = t.small ? '11px system-ui,sans-serif' : '600 12px system-ui,sans-serif'; ctx.textAlign = 'left'; ctx.fillStyle = '#1c2330'; ctx.fillText(fit(t.label, GUTTER - (t.small ? 50 : 74)), 9, y + t.h / 2); }
    ctx.font = '10px system-ui,sans-serif'; ctx.textAlign = 'right'; ctx.fillStyle = '#7a8494';
    if (t.sub && t.h >= 9) ctx.fillText(t.sub, GUTTER - 7, y + t.h / 2);
  }
  ctx.textAlign = 'left';
  ctx.restore();
}

function fit(text, width) {
  const w = ctx.measureText(text).width;
  if (w <= width) return text;
  const n = Math.floor(text.length * width / w) - 1;
  return n < 2 ? '' : text.slice(0, n) + '…';
}

// What is narrower than a pixel is gathered by pixel, and drawn as runs of equal pixels.
let sum = new Float64Array(0), best = new Float64Array(0), kind = new Uint8Array(0);
function gather(lane, each) {
  const w = Math.ceil(size.w) + 1, grain = (view.b - view.a) / (size.w - GUTTER), scale = 1 / grain;
  if (sum.length < w) { sum = new Float64Array(w); best = new Float64Array(w); kind = new Uint8Array(w); }
  sum.fill(0); best.fill(0);
  lane.visit(view.a, view.b, grain, (s, e, busy, k, r) => {
    if (e - s >= grain || (r >= 0 && r === selected)) { each?.(s, e, k, r); return; }
    const x = Math.floor(GUTTER + (s - view.a) * scale);
    if (x < GUTTER || x >= w) return;
    const part = Math.max(busy, 1e-9) * scale;
    sum[x] += part;
    if (part > best[x]) { best[x] = part; kind[x] = k; }
  });
}
function runs(y, h, colour, flat) {
  let from = -1, k = -1, height = -1;
  const end = x => { if (from >= 0) { ctx.fillStyle = colour(k); ctx.fillRect(from, y + h - height, x - from, height); } };
  const w = Math.min(sum.length - 1, Math.ceil(size.w));
  for (let x = GUTTER; x <= w; x++) {
    const there = x < w && sum[x] > 0;
    const hh = !there ? -1 : flat ? h : Math.round(h * (.4 + .6 * Math.min(1, sum[x])));
    if (there && kind[x] === k && hh === height && from >= 0) continue;
    end(x);
    from = there ? x : -1; k = kind[x]; height = hh;
  }
}

function drawSlices(t, y) {
  const {I} = T, colour = k => colours[k] ?? '#888';
  ctx.font = t.h > 16 ? '11px system-ui,sans-serif' : '9px system-ui,sans-serif';
  gather(t.lane, (s, e, k, r) => {
    const x = X(s), wide = Math.max(X(e) - x, 1);
    ctx.fillStyle = colour(k);
    ctx.fillRect(x, y, wide > 2.5 ? wide - .7 : wide, t.h);
    if (r < 0) return;
    if (r === selected) { ctx.strokeStyle = '#111'; ctx.lineWidth = 2; ctx.strokeRect(x + 1, y + 1, Math.max(wide - 2, 1), t.h - 2); ctx.lineWidth = 1; }
    else if (r === hovered) { ctx.fillStyle = '#ffffff40'; ctx.fillRect(x, y, wide, t.h); }
    if (wide > 26) {
      const from = Math.max(x, GUTTER), room = Math.min(x + wide, size.w) - from - 8;
      if (room > 18) { ctx.fillStyle = '#fff'; ctx.fillText(fit(nameOf(t.s, I.pc[r])[0], room), from + 4, y + t.h / 2 + .5); }
    }
  });
  runs(y, t.h, colour, false);
  const overlay = (lane, colour, yy, hh) => {
    if (!lane?.n) return;
    gather(lane, (s, e) => { ctx.fillStyle = colour; ctx.fillRect(X(s), yy, Math.max(X(e) - X(s), 1.5), hh); });
    runs(yy, hh, () => colour, true);
  };
  if (t.sub === 'overlapped') return;
  const which = t.sub === 'sequencer' ? 1 : 0;
  if (critLanes && $('critical').checked) overlay(critLanes[t.s][which], '#111827', t.h > 16 ? y - 3 : y, 3);
  if (matchLanes) overlay(matchLanes[t.s][which], MARK, y + t.h - 3, 4);
}

function drawStalls(t, y) {
  const colour = k => STALLS[META.causes[k]];
  gather(t.lane, (s, e, k) => { ctx.fillStyle = colour(k); ctx.fillRect(X(s), y + 1, X(e) - X(s), t.h - 2); });
  runs(y + 1, t.h - 2, colour, true);
}

function drawCores(t, y) {
  const {Q} = T, colour = k => k === LIBRARY ? '#5b6472' : colours[k] ?? '#888';
  ctx.font = '9px system-ui,sans-serif';
  gather(t.lane, (s, e, k, r) => {
    const x = X(s), wide = Math.max(X(e) - x, 1);
    ctx.fillStyle = colour(k); ctx.fillRect(x, y, wide > 2.5 ? wide - .7 : wide, t.h);
    const from = Math.max(x, GUTTER), room = Math.min(x + wide, size.w) - from - 6;
    if (r >= 0 && room > 40) { ctx.fillStyle = '#fff'; ctx.fillText(fit(coreName(r), room), from + 3, y + t.h / 2 + .5); }
  });
  runs(y, t.h, colour, false);
}
const coreName = r => T.Q.pc[r] === LOAD ? 'library load' : nameOf(POOL, T.Q.pc[r])[0];

// Sum of the weights up to time `t`: whole slices, and the part of the one that `t` cuts.
function sumTo(lane, sums, t) {
  const l = lane.levels[0], i = upper(l.s, t) - 1;
  if (i < 0) return 0;
  const part = l.e[i] > l.s[i] ? Math.min(1, (t - l.s[i]) / (l.e[i] - l.s[i])) : 1;
  return sums[i] + (sums[i + 1] - sums[i]) * part;
}
function rateIn(t, a, b) {
  let sum = 0;
  for (let i = 0; i < t.lanes.length; i++) if (t.lanes[i].n) sum += sumTo(t.lanes[i], t.sums[i], b) - sumTo(t.lanes[i], t.sums[i], a);
  return sum * META.header.tick_hz / (b - a);
}
function drawRate(t, y) {
  ctx.fillStyle = '#f1f4f8'; ctx.fillRect(GUTTER, y, size.w, t.h);
  ctx.fillStyle = t.unit === 'B/s' ? '#2f9ea8' : '#3b78c2';
  const from = Math.max(GUTTER, Math.floor(X(0))), to = Math.min(size.w, Math.ceil(X(META.end)));
  const total = t0 => { let n = 0; for (let i = 0; i < t.lanes.length; i++) if (t.lanes[i].n) n += sumTo(t.lanes[i], t.sums[i], t0); return n; };
  const per = META.header.tick_hz / (tickAt(1) - tickAt(0)) / t.peak * (t.h - 1);
  let last = total(tickAt(from)), start = from, height = 0;
  for (let x = from; x <= to; x++) {
    let hh = 0;
    if (x < to) { const n = total(tickAt(x + 1)), v = (n - last) * per; last = n; hh = v > 1e-6 ? Math.min(t.h - 1, Math.max(1, Math.round(v))) : 0; }
    if (hh === height && x < to) continue;
    if (height) ctx.fillRect(start, y + t.h - height, x - start, height);
    start = x; height = hh;
  }
}

function drawSteps(t, y) {
  const base = y + t.h - 2, H = t.h - 5;
  ctx.strokeStyle = '#4a5a78'; ctx.fillStyle = '#6f86b530'; ctx.lineWidth = 1;
  const first = upper(t.ticks, view.a), after = upper(t.ticks, view.b);
  if (after - first > (size.w - GUTTER) / 2) return denseSteps(t, first, after, base, H);
  let i = first - 1, last = -1, v = i < 0 ? 0 : t.values[i];
  let x = GUTTER;
  const level = () => base - H * v / t.max;
  ctx.font = '10px system-ui,sans-serif';
  while (x < size.w) {
    // the next change, no finer than a pixel
    let j = i + 1;
    if (j < t.ticks.length && X(t.ticks[j]) < x + 1) j = upper(t.ticks, tickAt(x + 1));
    const end = j < t.ticks.length ? Math.min(X(t.ticks[j]), size.w) : Math.min(size.w, Math.max(x, X(META.end)));
    ctx.fillStyle = '#6f86b535'; ctx.fillRect(x, level(), end - x, base - level());
    ctx.fillStyle = '#4a5a78'; ctx.fillRect(x, level() - .5, Math.max(end - x, 1), 1.2);
    if (end - x > 16 + 6 * t.show(v).length && t.h > 16) { ctx.fillText(t.show(v), x + 3, Math.max(y + 6, Math.min(level() + 8, base - 4))); }
    if (j >= t.ticks.length || end >= size.w) break;
    const before = level();
    i = Math.max(j, upper(t.ticks, t.ticks[j]) - 1); v = t.values[i]; x = end;
    ctx.fillRect(x - .5, Math.min(before, level()), 1.2, Math.abs(before - level()));
    if (x === last) x += 1;
    last = x;
  }
}

let low = new Float64Array(0), high = new Float64Array(0);
function denseSteps(t, first, after, base, H) {
  const w = Math.ceil(size.w) + 1, scale = (size.w - GUTTER) / (view.b - view.a);
  if (low.length < w) { low = new Float64Array(w); high = new Float64Array(w); }
  low.fill(Infinity); high.fill(-1);
  let before = first > 0 ? t.values[first - 1] : 0;
  for (let i = first; i < after; i++) {
    const x = Math.floor(GUTTER + (t.ticks[i] - view.a) * scale), v = t.values[i];
    const lo = Math.min(v, before), hi = Math.max(v, before);
    if (lo < low[x]) low[x] = lo;
    if (hi > high[x]) high[x] = hi;
    before = v;
  }
  let lo = first > 0 ? t.values[first - 1] : 0, hi = lo, from = GUTTER, v = lo;
  const end = Math.min(size.w, Math.ceil(X(META.end)));
  const draw = x => { const a = base - H * hi / t.max, b = base - H * lo / t.max; ctx.fillStyle = '#6f86b535'; ctx.fillRect(from, b, x - from, base - b); ctx.fillStyle = '#8698ba'; ctx.fillRect(from, a - .5, x - from, b - a + 1.2); };
  for (let x = GUTTER; x <= end; x++) {
    const there = x < end && high[x] >= 0, l = there ? low[x] : v, h = there ? high[x] : v;
    if (x < end && l === lo && h === hi) continue;
    draw(x); from = x; lo = l; hi = h;
    if (there) v = h;
  }
}

const trackOf = r => tracks.find(t => t.kind === 'slices' && t.s === T.I.stream[r] && (t.sub === 'sequencer') === !(T.I.flags[r] & 1) && (t.sub === 'overlapped') === Boolean(over[r]));
function arrows() {
  for (const {from, to, tick, out} of links) {
    const a = trackOf(from), b = trackOf(to);
    if (!a || !b) continue;
    const x0 = X(tick ?? T.I.start[from] + T.I.life[from]), x1 = X(T.I.start[to]), y0 = yOf(a) + a.h / 2, y1 = yOf(b) + b.h / 2;
    const bend = Math.max(24, Math.abs(x1 - x0) / 3);
    ctx.strokeStyle = ctx.fillStyle = out ? '#1b7f3b' : '#b3261e'; ctx.lineWidth = 1.8;
    ctx.beginPath(); ctx.moveTo(x0, y0); ctx.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 5, y1); ctx.stroke();
    ctx.beginPath(); ctx.moveTo(x1, y1); ctx.lineTo(x1 - 8, y1 - 4.5); ctx.lineTo(x1 - 8, y1 + 4.5); ctx.fill();
    ctx.beginPath(); ctx.arc(x0, y0, 3, 0, 7); ctx.fill(); ctx.lineWidth = 1;
  }
}

// ---- view

function setView(a, b) {
  const least = 8, most = META.end * 1.25 + 64;
  let span = Math.min(Math.max(b - a, least), most);
  const mid = (a + b) / 2;
  a = Math.min(Math.max(mid - span / 2, -span / 2), META.end + 64 - span / 2);
  view.a = a; view.b = a + span;
  redraw();
}
const zoom = (factor, x) => { const t = tickAt(x), k = (x - GUTTER) / (size.w - GUTTER), span = Math.min(Math.max((view.b - view.a) * factor, 8), META.end * 1.25 + 64); view.a = t - span * k; setView(view.a, view.a + span); };
const pan = px => { const d = px * (view.b - view.a) / (size.w - GUTTER); setView(view.a + d, view.b + d); };
const scroll = dy => { view.y = Math.max(0, Math.min(view.y + dy, tracks.height - (size.h - RULER))); redraw(); };
const fitAll = () => setView(-META.end * .01, META.end * 1.02 + 1);
let lastMove = 0, mouseX = 600;
function move() {
  const now = performance.now(), dt = Math.min(50, now - lastMove) / 1000; lastMove = now;
  if (!keys.size) return;
  if (keys.has('w')) zoom(Math.pow(.12, dt), mouseX);
  if (keys.has('s')) zoom(Math.pow(1 / .12, dt), mouseX);
  if (keys.has('a')) pan(-(size.w - GUTTER) * 1.2 * dt);
  if (keys.has('d')) pan((size.w - GUTTER) * 1.2 * dt);
}
function resize() {
  const r = $('stage').getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
  size = {w: r.width, h: r.height, ratio};
  canvas.width = Math.round(r.width * ratio); canvas.height = Math.round(r.height * ratio);
  scroll(0);
}

// ---- selection and text

function select(r, show) {
  selected = r; box = null; links = [];
  if (r >= 0) {
    const p = producer(r);
    if (p >= 0) links.push({from: p, to: r, tick: releaseTick(r)});
    for (const c of consumers(r)) links.push({from: r, to: c, tick: releaseTick(c), out: true});
    if (show) {
      const {I} = T, s = I.start[r], e = s + I.dur[r], span = view.b - view.a;
      if (s < view.a || e > view.b || X(e) - X(s) < 3) { const n = Math.min(Math.max(span, 20), Math.max(I.dur[r] * 40, 400)); setView((s + e) / 2 - n / 2, (s + e) / 2 + n / 2); }
      const t = trackOf(r);
      if (t && (yOf(t) < RULER || yOf(t) + t.h > size.h)) scroll(yOf(t) - size.h / 2);
    }
  }
  side(); redraw();
}

const cycles = (s, ticks) => Math.round(ticks / META.header.periods[s]).toLocaleString('en');
function brief(r) {
  const {I} = T, s = I.stream[r], [name, text, source] = nameOf(s, I.pc[r]);
  let out = `<b>${esc(name)}</b> <span class="s">${esc(streams[s])} ${isTransfer(r) ? 'transfer' : 'pc ' + I.pc[r] + ' ·'} #${I.index[r]}</span><br>`;
  if (text && text !== name) out += `<code>${esc(text.slice(0, 300))}</code><br>`;
  if (source) out += `<span class="s">${esc(source)}</span><br>`;
  out += `at ${time(I.start[r])}, busy ${cycles(s, I.dur[r])} cycles (${time(I.dur[r])}), complete after ${cycles(s, I.life[r])}`;
  if (isTransfer(r)) out += `<br>${I.rd[r].toLocaleString('en')} bytes ${I.flags[r] & 4 ? 'from HBM' : 'stored'}, ${rate(I.rd[r] * META.header.tick_hz / Math.max(I.dur[r], 1), 'B/s')}`;
  if (waited(r)) out += `<br>waited ${cycles(s, I.head[r] - I.granted[r])} cycles for ${esc(syncName(I.sync[r]))}${I.by[r] !== NONE ? ', released by ' + esc(streams[I.by[r]]) : ''}`;
  if (I.stall[r]) out += `<br>held by ${META.causes[I.stall[r] - 1]}`;
  return out;
}
const link = r => { const {I} = T; return `<a data-row="${r}">${esc(nameOf(I.stream[r], I.pc[r])[0])}</a> ${esc(streams[I.stream[r]])} #${I.index[r]}`; };
const tr = (a, b) => `<tr><th>${a}</th><td>${b}</td></tr>`;

function sideSelected(r) {
  const {I} = T, s = I.stream[r], [name, text, source] = nameOf(s, I.pc[r]), at = t => `${time(t)} <span style="color:#7a8494">cycle ${cycles(s, t)}</span>`;
  let out = `<h2>${esc(name)}</h2>`;
  if (text && text !== name) out += `<code>${esc(text)}</code>`;
  out += '<table>' + tr('stream', `${esc(streams[s])}, ${isTransfer(r) ? 'block' : 'pc'} ${I.pc[r]}, execution ${I.index[r]}`);
  if (source) out += tr('source', esc(source));
  out += isTransfer(r) ? tr('queued', at(I.start[r] - I.head[r]))
    : tr('at the head', at(I.start[r] - I.head[r])) + tr('wait over', at(granted(r))) + tr('issued', at(I.start[r] - I.issue[r]));
  out += tr('started', at(I.start[r])) + tr('busy until', at(I.start[r] + I.dur[r])) + tr('complete', at(I.start[r] + I.life[r]));
  out += tr('busy', `${cycles(s, I.dur[r])} cycles, ${time(I.dur[r])}`);
  if (waited(r)) out += tr('waited', `${cycles(s, I.head[r] - I.granted[r])} cycles for ${esc(syncName(I.sync[r]))}`);
  if (I.stall[r]) out += tr('held by', META.causes[I.stall[r] - 1]);
  if (I.flops[r]) out += tr('FLOPs', big(I.flops[r]));
  out += tr('bytes', isTransfer(r) ? big(I.rd[r]) + ' moved' : `${big(I.rd[r])} read, ${big(I.wr[r])} written`) + '</table>';
  const p = producer(r), c = links.filter(l => l.out);
  if (p >= 0) out += `<h2>${isTransfer(r) ? 'Triggered' : 'Released'} by <span style="color:#b3261e">&#9679;</span></h2>${link(p)} <kbd>[</kbd>`;
  if (c.length) out += `<h2>Releases <span style="color:#1b7f3b">&#9679;</span></h2>` + c.slice(0, 40).map(l => link(l.to)).join('<br>');
  return out;
}

function statistics(a, b) {
  const {I} = T, out = [];
  for (const t of tracks) {
    if (t.kind === 'slices' && t.sub !== 'sequencer') {
      let st = out.find(x => x.s === t.s);
      if (!st) out.push(st = {s: t.s, count: 0, busy: 0, stalls: {}, flops: 0, bytes: 0, names: new Map()});
      const l = t.lane.levels[0];
      for (let i = Math.max(0, t.lane.n ? upper(l.s, a) - 1 : 0); i < t.lane.n && l.s[i] < b; i++) {
        const part = Math.min(l.e[i], b) - Math.max(l.s[i], a);
        if (part < 0 || (part === 0 && l.s[i] < a)) continue;
        const r = t.lane.rows[i], share = l.busy[i] ? part / l.busy[i] : 1;
        st.count++; st.busy += Math.max(0, Math.min(l.e[i], b) - Math.max(l.e[i] - alone[r], a)); st.flops += I.flops[r] * share; st.bytes += (I.rd[r] + (isTransfer(r) ? 0 : I.wr[r])) * share;
        const name = nameOf(t.s, I.pc[r])[0]; st.names.set(name, (st.names.get(name) ?? 0) + part);
      }
    } else if (t.kind === 'stalls') {
      const st = out.find(x => x.s === t.s), l = t.lane.levels[0];
      for (let i = Math.max(0, t.lane.n ? upper(l.s, a) - 1 : 0); st && i < t.lane.n && l.s[i] < b; i++) {
        const part = Math.min(l.e[i], b) - Math.max(l.s[i], a), c = META.causes[l.k[i]];
        if (part > 0) st.stalls[c] = (st.stalls[c] ?? 0) + part;
      }
    }
  }
  return out;
}
const bar = (parts, total) => parts.map(([c, v]) => `<span class="bar" title="${c} ${(100 * v / total).toFixed(1)} %" style="width:${(100 * v / total).toFixed(2)}%;background:${STALLS[c] ?? '#3b78c2'}"></span>`).join('');

function sideBox() {
  const st = statistics(box.a, box.b), span = box.b - box.a;
  let out = `<h2>Selection: ${time(span)}</h2>${time(box.a)} to ${time(box.b)}, ${cycles(0, span)} PE cycles<table><tr><th>stream</th><th class="n">slices</th><th class="n">busy</th><th class="n">FLOPs</th><th class="n">bytes</th></tr>`;
  const names = new Map();
  for (const x of st) {
    if (!x.count && !Object.keys(x.stalls).length) continue;
    out += `<tr><td>${esc(streams[x.s])}</td><td class="n">${big(x.count)}</td><td class="n">${(100 * x.busy / span).toFixed(1)} %</td><td class="n">${big(x.flops)}</td><td class="n">${big(x.bytes)}</td></tr><tr><td colspan="5" style="font-size:0;line-height:10px;white-space:nowrap">${bar([['busy', x.busy], ...Object.entries(x.stalls)], span)}</td></tr>`;
    for (const [n, v] of x.names) names.set(n, (names.get(n) ?? 0) + v);
  }
  out += '</table><h2>Busy time by name</h2><table>';
  for (const [n, v] of [...names].sort((p, q) => q[1] - p[1]).slice(0, 14)) out += `<tr><td>${esc(n)}</td><td class="n">${time(v)}</td></tr>`;
  return out + '</table><p><a data-zoom="1">zoom to the selection</a> (F)</p>';
}

function sideSummary() {
  const s = META.summary, total = Math.max(s.total_ticks, 1), pct = x => (100 * x).toFixed(2) + ' %';
  let out = '';
  if (META.error) out += `<div class="bad">${esc(META.error)}</div>`;
  const peak = META.facts.pe[0] * META.facts.pe[1] * 2 * META.facts.engine_hz[0], seconds = total / META.header.tick_hz;
  out += `<h2>Run</h2><table>${tr('time', time(s.total_ticks) + ', ' + cycles(0, s.total_ticks) + ' PE cycles')}${tr('PE', `${rate(s.hardware_flops / seconds, 'FLOP/s')} of ${rate(peak, '')} (${pct(s.hardware_flops / seconds / peak)})`)}${tr('DMA', `${rate(s.transfers.bytes / seconds, 'B/s')} of ${rate(META.facts.dma_bytes_per_second, '')}, ${s.transfers.count} transfers`)}`;
  for (const m in s.memory) out += tr(m, `${big(s.memory[m].read)} B read, ${big(s.memory[m].written)} written`);
  out += '</table><h2>Streams</h2><table><tr><th>stream</th><th class="n">slices</th><th class="n">busy</th><th class="n">critical</th></tr>';
  for (const x of s.streams) {
    if (!x.instructions) continue;
    out += `<tr><td>${esc(x.name)}</td><td class="n">${big(x.instructions)}</td><td class="n">${(100 * x.busy_ticks / total).toFixed(1)} %</td><td class="n">${(100 * x.critical_share).toFixed(1)} %</td></tr><tr><td colspan="4" style="font-size:0;line-height:10px;white-space:nowrap">${bar([['busy', x.busy_ticks], ...Object.entries(x.stall_ticks)], total)}</td></tr>`;
  }
  out += '</table>';
  if (s.warnings.length) out += '<h2>Warnings</h2>' + s.warnings.map(w => `<div class="warn">${esc(w.message)}</div>`).join('');
  out += '<h2>Busiest instructions</h2><table>';
  for (const w of s.top) if (w.busy_ticks) out += `<tr><td><a data-find="${esc(w.stream)}:${w.pc}">${esc(w.name)}</a> ${esc(w.stream)} pc ${w.pc}${w.source ? '<br><span style="color:#7a8494">' + esc(w.source) + '</span>' : ''}</td><td class="n">${w.count} &times;<br>${time(w.busy_ticks)}</td></tr>`;
  return out + '</table>';
}
function side() { $('side').innerHTML = box ? sideBox() : selected >= 0 ? sideSelected(selected) : sideSummary(); }
$('side').addEventListener('click', e => {
  const d = e.target.dataset;
  if (d.row) select(Number(d.row), true);
  if (d.zoom) setView(box.a, box.b);
  if (d.find) { const at = d.find.lastIndexOf(':'), s = streams.indexOf(d.find.slice(0, at)), pc = Number(d.find.slice(at + 1)); runSearch((x, p) => x === s && p === pc); step(1); }
});

// ---- search

function runSearch(accept) {
  const {I} = T, set = streams.map((_, s) => { const ok = new Set(); for (const pc in META.names[s] ?? {}) if (accept(s, Number(pc))) ok.add(Number(pc)); return ok; });
  const found = [];
  for (let i = 0; i < I.n; i++) if (set[I.stream[i]].has(I.pc[i])) found.push(i);
  matches = Uint32Array.from(found).sort((a, b) => I.start[a] - I.start[b]);
  matchAt = -1;
  const by = streams.map(() => []);
  for (const r of matches) by[I.stream[r]].push(r);
  matchLanes = matches.length ? by.map(halves) : null;
  count(); redraw();
}
function search() {
  const text = $('search').value.trim().toLowerCase();
  if (!text) { matches = []; matchLanes = null; matchAt = -1; count(); redraw(); return; }
  runSearch((s, pc) => { const [n, t, src] = nameOf(s, pc); return (n + '\n' + t + '\n' + (src ?? '')).toLowerCase().includes(text); });
}
function step(d) {
  if (!matches.length) return;
  matchAt = (matchAt + d + matches.length) % matches.length;
  select(matches[matchAt], true); count();
}
function count() { $('found').textContent = $('search').value.trim() || matches.length ? `${matchAt + 1} / ${matches.length}` : ''; }

// ---- input

function pick(x, y, click) {
  if (x < GUTTER || y < RULER) return -1;
  const t = tracks.find(k => (k.kind === 'slices' || (click && k.kind === 'cores')) && y >= yOf(k) && y < yOf(k) + k.h);
  if (t?.kind === 'cores') { const q = t.lane.hit(tickAt(x), 2 * (view.b - view.a) / (size.w - GUTTER)); return q < 0 ? -1 : rowOf(POOL, T.Q.index[q]); }
  return t ? t.lane.hit(tickAt(x), 2 * (view.b - view.a) / (size.w - GUTTER)) : -1;
}
function hover(x, y, e) {
  const r = pick(x, y);
  let html = '';
  if (r >= 0) html = brief(r);
  else if (x > GUTTER) {
    const t = tracks.find(k => y >= yOf(k) && y < yOf(k) + k.h), at = tickAt(x);
    if (t?.kind === 'stalls') {
      const w = t.lane.hit(at, (view.b - view.a) / (size.w - GUTTER));
      if (w >= 0) html = `<b>${META.causes[T.T.cause[w]]}</b>: ${esc(streams[t.s])} idle for ${cycles(t.s, T.T.dur[w])} cycles (${time(T.T.dur[w])})<br><span class="s">before ${esc(nameOf(t.s, T.T.pc[w])[0])} pc ${T.T.pc[w]}</span>`;
    } else if (t?.kind === 'step') {
      const i = upper(t.ticks, at) - 1, u = t.rows[i];
      html = `<b>${esc(t.name ?? t.label)}</b> = ${t.show(i < 0 ? 0 : t.values[i])}` + (i >= 0 ? `<br><span class="s">since ${time(t.ticks[i])}${t.id === undefined ? '' : `, by ${esc(streams[T.S.by[u]])} #${T.S.byIndex[u]}`}</span>` : '');
    } else if (t?.kind === 'cores') {
      const q = t.lane.hit(at, (view.b - view.a) / (size.w - GUTTER)), {Q} = T;
      if (q >= 0) html = `<b>${esc(coreName(q))}</b> <span class="s">Q7 core ${t.core}, POOL #${Q.index[q]}</span><br>` + (Q.pc[q] === LOAD ? `${big(Q.cycles[q])} bytes in ${time(Q.dur[q])}` : `${Q.cycles[q].toLocaleString('en')} cycles (${time(Q.dur[q])}) from ${time(Q.start[q])}`);
    } else if (t?.kind === 'rate') { const v = rateIn(t, tickAt(x - .5), tickAt(x + .5)); html = `${rate(v, t.unit)} (${(100 * v / t.peak).toFixed(1)} %)`; }
  }
  tip.hidden = !html;
  if (html) {
    tip.innerHTML = html;
    const w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.max(4, Math.min(x + 14, size.w - w - 6)) + 'px';
    tip.style.top = (y + 18 + h > size.h ? Math.max(4, y - h - 12) : y + 18) + 'px';
  }
  if (r !== hovered) { hovered = r; redraw(); }
}
const at = e => { const r = canvas.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
canvas.addEventListener('mousedown', e => {
  const [x, y] = at(e);
  drag = {x, y, lx: x, ly: y, moved: false, box: e.shiftKey || y < RULER};
  if (drag.box) { const t = tickAt(Math.max(x, GUTTER)); drag.t = t; }
});
window.addEventListener('mousemove', e => {
  const [x, y] = at(e);
  mouseX = Math.max(GUTTER, x);
  if (!drag) { if (e.target === canvas) hover(x, y, e); else tip.hidden = true; return; }
  if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > 3) drag.moved = true;
  if (drag.moved) {
    tip.hidden = true;
    if (drag.box) { const t = tickAt(Math.max(x, GUTTER)); box = {a: Math.max(0, Math.min(t, drag.t)), b: Math.max(t, drag.t, 1)}; selected = -1; links = []; redraw(); }
    else { pan(drag.lx - x); scroll(drag.ly - y); }
  }
  drag.lx = x; drag.ly = y;
});
window.addEventListener('mouseup', e => {
  if (!drag) return;
  const [x, y] = at(e);
  if (!drag.moved) select(pick(x, y, true)); else if (drag.box) side();
  drag = null;
});
canvas.addEventListener('wheel', e => {
  e.preventDefault();
  const [x] = at(e);
  if (x < GUTTER || (e.altKey && !e.ctrlKey)) scroll(e.deltaY);
  else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan(e.deltaX || e.deltaY);
  else zoom(Math.exp(e.deltaY * .0016), x);
}, {passive: false});
function follow(out) {
  if (selected < 0) return;
  const r = out ? links.find(l => l.out)?.to ?? -1 : producer(selected);
  if (r >= 0) select(r, true);
}
window.addEventListener('keydown', e => {
  if (e.target.tagName === 'INPUT' && e.target.type === 'search') {
    if (e.key === 'Enter') { step(e.shiftKey ? -1 : 1); e.preventDefault(); }
    if (e.key === 'Escape') { $('search').value = ''; search(); e.target.blur(); }
    return;
  }
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const k = e.key.toLowerCase();
  if ('wasd'.includes(k) && k.length === 1) { if (!keys.size) lastMove = performance.now(); keys.add(k); redraw(); }
  else if (k === '/') { $('search').focus(); $('search').select(); e.preventDefault(); }
  else if (k === 'f') { if (box) setView(box.a, box.b); else if (selected >= 0) { const s = T.I.start[selected], d = Math.max(T.I.dur[selected], 8); setView(s - d, s + 2 * d); } else fitAll(); }
  else if (k === '0' || k === 'home') fitAll();
  else if (k === 'c') { $('critical').click(); }
  else if (k === '[') follow(false);
  else if (k === ']') follow(true);
  else if (k === 'n') step(e.shiftKey ? -1 : 1);
  else if (k === 'arrowleft' || k === 'arrowright') { if (selected >= 0) { const r = rowOf(T.I.stream[selected], T.I.index[selected] + (k === 'arrowleft' ? -1 : 1)); if (r >= 0) select(r, true); } else pan(k === 'arrowleft' ? -90 : 90); }
  else if (k === 'arrowup' || k === 'arrowdown') scroll(k === 'arrowup' ? -40 : 40);
  else if (k === '?') $('help').click();
  else if (k === 'escape') { $('note').hidden = true; box = null; select(-1); }
});
window.addEventListener('keyup', e => keys.delete(e.key.toLowerCase()));
window.addEventListener('blur', () => keys.clear());
window.addEventListener('resize', resize);
$('search').addEventListener('input', search);
$('next').onclick = () => step(1);
$('prev').onclick = () => step(-1);
$('fit').onclick = fitAll;
$('critical').onchange = () => { critLanes ??= criticalPath(); $('critical').blur(); redraw(); };
$('help').onclick = () => {
  const n = $('note');
  n.hidden = !n.hidden;
  n.innerHTML = '<table>' + [['W S', 'zoom'], ['A D', 'pan'], ['wheel', 'zoom at the pointer; Shift: pan; over the names: scroll'], ['drag', 'pan'], ['Shift drag', 'select a time (also on the ruler)'], ['click', 'details and dependencies'], ['[ ]', 'go to what released this; to what this releases'], ['\u2190 \u2192', 'previous, next of the stream'], ['/', 'search; Enter, Shift+Enter: next, previous'], ['F', 'fit the selection, or everything'], ['0', 'whole run'], ['C', 'critical path'], ['Esc', 'clear']].map(([k, t]) => `<tr><td><kbd>${k}</kbd></td><td>${t}</td></tr>`).join('') + '</table>';
};

// What tests look at.
const state = window.tpbemu = {ready: false, frames: 0, drawMs: 0, loadMs: 0};
(async () => {
  try {
    T = await readColumns();
    $('title').textContent = 'tpbemu';
    build();
    $('legend').innerHTML = '<span>stalls:</span>' + META.causes.map(c => `<span><i style="background:${STALLS[c]}"></i>${c}</span>`).join('') + '<span style="margin-left:auto">W A S D to move, ? for keys</span>';
    view.a = 0; view.b = META.end * 1.02 + 1;
    resize(); fitAll(); side();
    Object.defineProperties(state, Object.getOwnPropertyDescriptors({
      labels: tracks.map(t => `${t.label} ${t.sub}`.trim()),
      get critical() { return critLanes ? critLanes.flat().reduce((n, l) => n + l.n, 0) : 0; },
      rows: T.I.n, cores: T.Q.n, counters: T.C.n, updates: T.S.n, stalls: T.T.n, tracks: tracks.length,
      get view() { return {a: view.a, b: view.b}; },
      get selected() { return selected; },
      get matches() { return matches.length; },
      get links() { return links.length; },
      get box() { return box; },
      row: r => ({stream: streams[T.I.stream[r]], pc: T.I.pc[r], index: T.I.index[r], start: T.I.start[r], dur: T.I.dur[r], name: nameOf(T.I.stream[r], T.I.pc[r])[0]}),
      place: r => { const t = trackOf(r); return {x: X(T.I.start[r] + T.I.dur[r] / 2), y: yOf(t) + t.h / 2}; },
      find: accept => { for (let r = 0; r < T.I.n; r++) if (accept(r, T.I)) return r; return -1; },
      statistics, setView, producer,
      totals: () => streams.map((_, s) => {
        const x = statistics(-1, META.end + 1e9).find(k => k.s === s);
        return x ? {stream: streams[s], busy: x.busy, stalls: x.stalls} : null;
      }).filter(Boolean),
      loadMs: performance.now(), ready: true,
    }));
  } catch (e) {
    state.error = String(e.stack ?? e);
    $('side').innerHTML = `<div class="bad">${esc(state.error)}</div>`;
  }
})();
