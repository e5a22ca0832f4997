'use strict';
// Reading the columns of the file, and the structures that make a million slices quick to draw.

const META = JSON.parse(document.getElementById('meta').textContent);
const COLUMNS = {
  I: [['start', 'd'], ['dur', 'u'], ['pc', 'u'], ['index', 'u'], ['head', 'u'], ['granted', 'u'], ['issue', 'u'],
      ['life', 'u'], ['flops', 'f'], ['rd', 'u'], ['wr', 'u'], ['byIndex', 'u'], ['sync', 'h'], ['by', 'h'],
      ['stream', 'h'], ['flags', 'b'], ['stall', 'b']],
  T: [['start', 'd'], ['dur', 'u'], ['pc', 'u'], ['stream', 'h'], ['cause', 'b']],
  S: [['tick', 'd'], ['value', 'u'], ['byIndex', 'u'], ['id', 'h'], ['by', 'h']],
  Q: [['start', 'd'], ['dur', 'u'], ['pc', 'u'], ['index', 'u'], ['cycles', 'u'], ['core', 'b']],
  C: [['tick', 'd'], ['value', 'u'], ['which', 'h']],
};
const ARRAYS = {d: Float64Array, u: Uint32Array, f: Float32Array, h: Uint16Array, b: Uint8Array};
const NONE = 0xffff;

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const s = atob(text), out = new Uint8Array(s.length);
  for (let i = 0; i < s.length; i++) out[i] = s.charCodeAt(i);
  return out;
}

async function readColumns() {
  const blocks = {}, rows = {};
  for (const kind in COLUMNS) { blocks[kind] = []; rows[kind] = 0; }
  for (const e of document.querySelectorAll('script[data-k]')) {
    const n = Number(e.dataset.n), kind = e.dataset.k;
    const stream = new Blob([bytesOf(e.textContent)]).stream().pipeThrough(new DecompressionStream('deflate'));
    blocks[kind].push({n, data: new Response(stream).arrayBuffer()});
    rows[kind] += n;
    e.remove();
  }
  const out = {};
  for (const kind in COLUMNS) {
    const t = out[kind] = {n: rows[kind]};
    for (const [name, type] of COLUMNS[kind]) t[name] = new ARRAYS[type](rows[kind]);
    let at = 0;
    for (const b of blocks[kind]) {
      const data = await b.data;
      let offset = 0;
      for (const [name, type] of COLUMNS[kind]) {
        const A = ARRAYS[type], bytes = A.BYTES_PER_ELEMENT * b.n;
        t[name].set(new A(data.slice(offset, offset + bytes)), at);
        offset += bytes;
      }
      at += b.n;
    }
  }
  return out;
}

// Slices of one lane in the order of their starts, with levels of detail: at level k a node stands
// for FAN^k slices and knows its span, its busy ticks and the class that fills most of it.
const FAN = 8;
class Lane {
  constructor(rows, start, dur, klass) {
    if (!inOrder(rows, start)) rows.sort((a, b) => start[a] - start[b]);
    this.rows = rows;
    const n = rows.length, s = new Float64Array(n), e = new Float64Array(n), busy = new Float64Array(n), k = new Uint8Array(n);
    for (let i = 0; i < n; i++) {
      const r = rows[i];
      s[i] = start[r]; busy[i] = dur[r]; e[i] = s[i] + dur[r]; k[i] = klass(r);
    }
    this.levels = [{s, e, busy, k, n}];
    const weight = new Float64Array(256);
    while (this.levels.at(-1).n > 64) {
      const a = this.levels.at(-1), m = Math.ceil(a.n / FAN);
      const b = {s: new Float64Array(m), e: new Float64Array(m), busy: new Float64Array(m), k: new Uint8Array(m), n: m};
      for (let i = 0; i < m; i++) {
        const from = i * FAN, to = Math.min(a.n, from + FAN);
        let end = 0, sum = 0, best = a.k[from];
        for (let j = from; j < to; j++) weight[a.k[j]] = 0;
        for (let j = from; j < to; j++) {
          if (a.e[j] > end) end = a.e[j];
          sum += a.busy[j]; weight[a.k[j]] += a.busy[j];
          if (weight[a.k[j]] > weight[best]) best = a.k[j];
        }
        b.s[i] = a.s[from]; b.e[i] = end; b.busy[i] = sum; b.k[i] = best;
      }
      this.levels.push(b);
    }
  }
  get n() { return this.rows.length; }
  // Calls draw(start, end, busy, class, row or -1) for what meets [a, b], nothing finer than `grain`.
  visit(a, b, grain, draw) {
    if (!this.n) return;
    const walk = (level, i) => {
      const l = this.levels[level], s = l.s[i], e = l.e[i];
      if (e < a || s > b) return;
      if (level === 0) draw(s, e, l.busy[i], l.k[i], this.rows[i]);
      else if (e - s <= grain) draw(s, e, l.busy[i], l.k[i], -1);
      else {
        const from = i * FAN, to = Math.min(this.levels[level - 1].n, from + FAN);
        for (let j = from; j < to; j++) walk(level - 1, j);
      }
    };
    const top = this.levels.length - 1;
    for (let i = 0; i < this.levels[top].n; i++) walk(top, i);
  }
  // Position of the last slice that starts at or before `t`; -1 if there is none.
  before(t) { return upper(this.levels[0].s, t) - 1; }
  // The row at time `t`, within `slack`; -1 if there is none.
  hit(t, slack) {
    const l = this.levels[0], exact = this.n ? this.before(t) : -1;
    if (exact >= 0 && l.e[exact] >= t) return this.rows[exact];
    for (let i = this.n ? this.before(t + slack) : -1, tries = 0; i >= 0 && tries < 8; i--, tries++)
      if (l.e[i] + slack >= t) return this.rows[i];
    return -1;
  }
}

function inOrder(rows, start) {
  for (let i = 1; i < rows.length; i++) if (start[rows[i]] < start[rows[i - 1]]) return false;
  return true;
}

// First position whose value is above `t` in a sorted array.
function upper(sorted, t) {
  let lo = 0, hi = sorted.length;
  while (lo < hi) { const mid = (lo + hi) >> 1; if (sorted[mid] <= t) lo = mid + 1; else hi = mid; }
  return lo;
}

// Rows of a table by stream, optionally only those `keep` takes.
function rowsBy(table, keep) {
  const count = new Uint32Array(META.header.streams.length);
  for (let i = 0; i < table.n; i++) if (!keep || keep(i)) count[table.stream[i]]++;
  const out = Array.from(count, n => new Uint32Array(n));
  count.fill(0);
  for (let i = 0; i < table.n; i++) if (!keep || keep(i)) { const s = table.stream[i]; out[s][count[s]++] = i; }
  return out;
}

const esc = s => String(s).replace(/[&<>"]/g, c => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'})[c]);
const nameOf = (stream, pc) => META.names[stream]?.[pc] ?? ['?', '', null];
const ns = t => t * 1e9 / META.header.tick_hz;
function time(t) {
  const x = ns(t), a = Math.abs(x);
  return a < 1e3 ? x.toFixed(a < 10 ? 2 : 1) + ' ns' : a < 1e6 ? (x / 1e3).toFixed(3) + ' µs' : (x / 1e6).toFixed(3) + ' ms';
}
const big = n => n < 1e4 ? String(Math.round(n * 100) / 100) : n < 1e7 ? (n / 1e3).toFixed(1) + 'k' : n < 1e9 ? (n / 1e6).toFixed(1) + 'M' : n < 1e12 ? (n / 1e9).toFixed(1) + ' G' : (n / 1e12).toFixed(2) + ' T';
const rate = (n, unit) => { const [x, u] = n < 1e3 ? [1, ''] : n < 1e6 ? [1e3, 'k'] : n < 1e9 ? [1e6, 'M'] : n < 1e12 ? [1e9, 'G'] : [1e12, 'T']; return (n / x).toFixed(n / x < 100 && n ? 2 : 0) + ' ' + u + unit; };
function syncName(id) {
  const event = id & 0x8000, n = id & 0x7fff, name = (event ? META.facts.events : META.facts.semaphores)[n];
  return (event ? 'E[' : 'S[') + n + ']' + (name ? ' ' + name : '');
}
