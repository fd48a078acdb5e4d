// The service's page. It polls the JSON of src/serve/page/views.h and updates what changed. Names
// come from users: everything is put in by textContent or attributes, never as HTML. A row keeps
// its element while its key lives, so that focus and selections survive updates.
'use strict';

const $ = id => document.getElementById(id);
const FAST_MS = 2000, SLOW_MS = 10000, COLORS = 8;
const SVG = 'http://www.w3.org/2000/svg';

// ---- figures for people

function micros(us) {
  if (!(us > 0)) return '-';
  if (us < 1000) return us.toPrecision(4) + ' us';
  return us < 1e6 ? (us / 1e3).toPrecision(4) + ' ms' : (us / 1e6).toPrecision(4) + ' s';
}
// With where the time comes from, unless it was measured.
const kindly = (us, kind) =>
    us > 0 && kind && kind !== 'measured' ? `${micros(us)} (${kind})` : micros(us);
function span(seconds) {
  if (seconds < 90) return Math.max(0, Math.round(seconds)) + ' s';
  if (seconds < 5400) return Math.round(seconds / 60) + ' min';
  return seconds < 129600 ? Math.round(seconds / 3600) + ' h' : Math.round(seconds / 86400) + ' d';
}
const count = n => Number(n).toLocaleString('en');
const times = gain => gain > 0 ? gain.toFixed(gain < 10 ? 2 : 1) + '×' : '-';
const words = name => name.replaceAll('_', ' ');

// ---- building elements

function el(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === 'class') node.className = value;
    else if (name === 'onclick') node.addEventListener('click', value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
function shape(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}
function drawing(width, height, label) {
  return shape('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label});
}
const pill = (text, kind) => el('span', {class: 'pill ' + kind}, text);
function meter(fraction, text, kind) {
  const fill = el('i');
  fill.style.width = (100 * Math.min(1, Math.max(0, fraction))).toFixed(1) + '%';
  return el('div', {class: 'meter ' + kind}, fill, el('span', {}, text));
}
const named = (name, below) => el('div', {}, el('b', {}, name), el('br'), el('small', {}, below));

// Rows of a table. `cells(item)` gives for each column [what it shows as text, class, maker]; a
// cell is rebuilt only when its text changed.
function fill(body, items, key, cells, empty) {
  const known = new Map([...body.children].map(row => [row.dataset.key, row]));
  const rows = items.map(item => {
    const name = String(key(item));
    const row = known.get(name) || el('tr', {'data-key': name});
    cells(item).forEach(([text, kind = '', make], i) => {
      let cell = row.children[i];
      if (!cell) row.append(cell = el('td', {class: kind}));
      if (cell.shown === text) return;
      cell.shown = text;
      cell.replaceChildren(make ? make() : text);
    });
    return row;
  });
  if (rows.length === 0) {
    const columns = body.parentElement.tHead.rows[0].cells.length;
    rows.push(el('tr', {class: 'empty'}, el('td', {colspan: columns}, empty)));
  }
  const same = rows.length === body.children.length && rows.every((r, i) => r === body.children[i]);
  if (!same) body.replaceChildren(...rows);
}

// ---- asking

let now = Date.now();
async function get(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== '' && value !== null);
  const response = await fetch('api/' + path + '?' + new URLSearchParams(given));
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error || response.statusText);
  return answer;
}

// ---- the whole at a glance

function tile(value, below, bad) {
  return el('div', {class: bad ? 'tile bad' : 'tile'}, el('b', {}, value), el('span', {}, below));
}
const problems = {};                       // by who found them
function alerts(who, list) {
  problems[who] = list;
  const all = Object.values(problems).flat();
  const text = all.join('\n');
  if ($('alerts').shown === text) return;
  $('alerts').shown = text;
  $('alerts').replaceChildren(...all.map(line => el('li', {}, line)));
  $('alerts').hidden = all.length === 0;
}
async function overview() {
  const view = await get('overview');
  now = view.now_ms;
  const {devices, jobs, studies} = view;
  const unwell = devices.quarantined + devices.unwell;
  const offline = devices.total - devices.online;
  const notes = [];
  if (devices.quarantined) notes.push(devices.quarantined + ' quarantined');
  if (devices.unwell) notes.push(devices.unwell + ' unwell');
  if (offline) notes.push(offline + ' offline');
  for (const state of ['draining', 'pending', 'unsupported']) {
    if (devices[state]) notes.push(devices[state] + ' ' + state);
  }
  $('tiles').replaceChildren(
    tile(count(studies.running || 0), `studies running, ${count(studies.queued || 0)} waiting`),
    tile(`${devices.online} / ${devices.total}`, 'devices online' + (notes.length ? ': ' : '') +
         notes.join(', '), unwell > 0 || (devices.total > 0 && devices.online === 0)),
    tile(count(jobs.leased), `jobs running, ${count(jobs.queued)} waiting`),
    tile(count(jobs.dead), 'jobs given up', jobs.dead > 0),
    tile(count(view.measurements), 'measurements'),
    tile(count(view.schedules), 'workloads with schedules'));
  const list = view.problem ? [view.problem] : [];
  if (jobs.queued > 0 && devices.online === 0) list.push('Jobs wait, and no device is online.');
  alerts('service', list);
  $('status').textContent = (view.ready ? 'serving' : 'not ready') + ' · version ' + view.version +
      ' · ' + new Date(now).toISOString().slice(0, 19).replace('T', ' ') + ' UTC';
}

// ---- studies

const studyPills =
    {running: 'run', succeeded: 'good', failed: 'bad', cancelled: 'idle', queued: 'warn'};
let before = '', chosen = new URLSearchParams(location.hash.slice(1)).get('study') || '';
let following = chosen === '';             // the newest running one, until somebody picks
const running_s = study => ((study.ended_ms || now) - study.created_ms) / 1000;
function title(study) {
  const more = study.workload_count - 1;
  return (study.first_workload || study.id) + (more > 0 ? ` and ${more} more` : '');
}
function studyCells(study) {
  const ended = study.ended_ms > 0;
  const kind = study.state === 'failed' ? 'bad' : ended ? 'done' : '';
  const share = study.trials_wanted > 0 ? study.trials / study.trials_wanted : 0;
  const progress = `${count(study.trials)} / ${count(study.trials_wanted)}`;
  const below = `${study.client || 'anonymous'} · ${study.id}` +
      (study.error ? ` · ${study.error}` : '') +
      (study.waiting ? ` · waits for ${study.waiting}` : '');
  return [
    [study.state, '', () => pill(study.state, studyPills[study.state] || 'idle')],
    [title(study) + below, '', () => el('div', {},
        el('button', {class: 'link', onclick: () => choose(study.id)}, title(study)), el('br'),
        el('small', {class: study.error ? 'bad-text' : ''}, below))],
    [progress + kind, '',
     () => meter(ended && study.state === 'succeeded' ? 1 : share, progress, kind)],
    [study.workload_count === 1 ? kindly(study.best_us, study.time_kind) :
        `${study.workloads_done} of ${study.workload_count} done`, 'n wide'],
    [times(study.gain), 'n'],
    [count(study.failed), 'n wide'],
    [study.target || 'any', 'wide'],
    [span(running_s(study)), 'n wide'],
  ];
}
async function studies() {
  const page = await get('studies', {state: $('state').value, before, limit: 12});
  fill($('study-rows'), page.studies, s => s.id, studyCells,
       $('state').value ? 'No such study.' : 'No study yet: loopwright submit makes one.');
  $('older').hidden = page.next === null;
  $('older').onclick = () => { before = page.next; refresh(studies); };
  $('newest').hidden = before === '';
  if (following) {
    const first = page.studies.find(s => s.state === 'running') || page.studies[0];
    if (first && first.id !== chosen) show(first.id);
  }
  for (const row of $('study-rows').children) {
    row.classList.toggle('on', row.dataset.key === chosen);
  }
}
function choose(id) {
  following = false;
  history.replaceState(null, '', '#study=' + encodeURIComponent(id));
  show(id);
  refresh(studies);
  refresh(study);
}
let curves = {id: '', sequence: 0, points: []};
function show(id) {
  chosen = id;
  curves = {id, sequence: 0, points: []};
  refresh(studyFailures);
}

// ---- one study

async function study() {
  const id = chosen;
  if (!id) { $('study').hidden = true; return; }
  const [view, first] = await Promise.all(
      [get('studies/' + encodeURIComponent(id)),
       get(`studies/${encodeURIComponent(id)}/curve`, {after: curves.sequence})]);
  let part = first;
  for (let i = 0; ; ++i) {
    if (id !== chosen) return;             // another was picked meanwhile
    curves.points.push(...part.points);
    curves.sequence = part.sequence;
    if (!part.more || i > 50) break;
    part = await get(`studies/${encodeURIComponent(id)}/curve`, {after: curves.sequence});
  }
  $('study').hidden = false;
  $('study-title').textContent = title(view);
  const labels = Object.entries(view.labels).map(([name, value]) => `${name}=${value}`).join(', ');
  $('study-sub').textContent = [words(view.state), view.id, `priority ${view.priority}`,
      view.target,
      `${count(view.trials)} of ${count(view.trials_wanted)} trials`, labels, view.error,
       view.waiting ? `waits for ${view.waiting}` : '']
      .filter(part => part).join(' · ');
  drawCurve(view);
  fill($('workload-rows'), view.workloads, w => w.position, w => [
    [w.name + w.threads + w.cache, '', () => el('div', {},
        el('span', {class: `swatch c${w.position % COLORS}`}),
        el('b', {}, w.name), el('br'),
        el('small', {}, `${w.threads} ${w.threads === 1 ? 'thread' : 'threads'}, ${w.cache}` +
           (w.note ? ' · ' + w.note : '')))],
    [kindly(w.best_us, w.time_kind), 'n'],
    [times(w.best_us > 0 ? w.zero_us / w.best_us : 0), 'n'],
    [`${w.trials} ${w.failed}`, 'n', () => el('div', {}, count(w.trials), ...(w.failed ?
        [el('br'), el('small', {}, `${count(w.failed)} failed`)] : []))],
    [w.done ? 'done' : view.ended_ms ? 'ended' : 'running', '', () =>
        pill(w.done ? 'done' : view.ended_ms ? 'ended' : 'running',
             w.done ? 'good' : view.ended_ms ? 'idle' : 'run')],
  ], 'No workload.');
  calls(view);
  for (const row of $('workload-rows').children) {
    row.onmouseenter = () => pick(row.dataset.key);
    row.onmouseleave = () => pick(null);
  }
}
// What a simulated machine does during a call of each workload's best: drawn by the server (an engine
// a row, no name of a user's in it) when it is opened, and again when there is a better one. The
// first is open.
function calls(view) {
  const simulated = view.workloads.filter(w => w.time_kind === 'simulated' && w.best_us > 0);
  const body = $('study-calls'), known = new Map([...body.children].map(d => [d.dataset.key, d]));
  const list = simulated.map((w, i) => {
    const key = `${view.id} ${w.position}`;
    if (known.has(key)) return known.get(key);
    const made = el('details', {'data-key': key, ...(i === 0 ? {open: ''} : {})},
        el('summary', {}, 'timeline of ' + w.name), el('div'));
    made.addEventListener('toggle', () => drawCall(made));
    return made;
  });
  if (list.length !== body.children.length || list.some((d, i) => d !== body.children[i])) {
    body.replaceChildren(...list);
  }
  simulated.forEach((w, i) => {
    Object.assign(list[i], {study: view.id, position: w.position, best: w.best_us});
    drawCall(list[i]);
  });
}
async function drawCall(details) {
  const {best, study, position} = details;
  if (!details.open || details.shown === best) return;
  details.shown = best;
  const body = details.lastElementChild;
  try {
    const call = await get(`studies/${encodeURIComponent(study)}/call`, {workload: position});
    const svg = document.adoptNode(
        new DOMParser().parseFromString(call.svg, 'image/svg+xml').documentElement);
    for (const row of svg.querySelectorAll('[data-tip]')) {
      row.append(shape('title', {}, row.dataset.tip));
    }
    body.replaceChildren(el('p', {class: 'note'}, 'simulated: ' + call.note),
        el('div', {class: 'key'}, ...call.colors.map(c =>
            el('span', {}, el('span', {class: 'swatch ' + c.look}), c.meaning))), svg);
  } catch (error) {
    if (error instanceof TypeError) details.shown = 0;  // lost on the way: asked for again
    body.replaceChildren(el('p', {class: 'note'}, 'No timeline: ' + error.message));
  }
}
// What failed of each workload, by class, with an example and what to do.
async function studyFailures() {
  const id = chosen;
  const view = id ? await get(`studies/${encodeURIComponent(id)}/failures`) : {workloads: []};
  const state = JSON.stringify(view.workloads);
  if (id !== chosen || $('study-failures').shown === state) return;
  $('study-failures').shown = state;
  $('study-failures').replaceChildren(...view.workloads.flatMap(w => [
    el('h3', {}, 'Failed of ' + w.name),
    ...w.failures.map(f => el('div', {class: 'failure'}, el('b', {}, `${count(f.count)} ${words(f.class)}`),
        f.detail ? ', e.g. ' + f.detail : '',
        el('details', {}, el('summary', {}, 'its schedule'), el('code', {}, f.trace)),
        el('small', {class: 'note'}, f.advice))),
  ]));
}
function pick(position) {
  const chart = $('curve').querySelector('svg');
  if (!chart) return;
  chart.classList.toggle('pick', position !== null);
  for (const line of chart.querySelectorAll('.curve')) {
    line.classList.toggle('on', line.dataset.position === position);
  }
}

// Round figures inside [low, high] on a log scale, as fine as eight of them allow.
function logTicks(low, high) {
  const tenths = Array.from({length: 90}, (_, i) => 1 + i / 10);
  for (const steps of [tenths, [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8], [1, 1.5, 2, 3, 5, 7],
                       [1, 2, 5], [1]]) {
    const ticks = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); ++e) {
      ticks.push(...steps.map(step => step * 10 ** e).filter(v => v >= low && v <= high));
    }
    if (ticks.length <= 8) return ticks;
  }
  return [low, high];
}
const short = value => String(Number(value.toPrecision(2)));

// Each workload's best so far as a step line, in times the speed of its untuned answer.
function drawCurve(view) {
  const lines = view.workloads.map(w => {
    const own = curves.points.filter(p => p.workload === w.name || p.workload === w.workload);
    const base = w.zero_us > 0 ? w.zero_us : own.length ? own[0].best_us : 0;
    return {position: w.position,
            steps: own.map(p => [Math.max(p.elapsed_s, 0.1), base / p.best_us])};
  }).filter(line => line.steps.length > 0);
  const end = Math.max(running_s(view), ...lines.flatMap(l => l.steps.map(s => s[0])), 1);
  const W = Math.max(300, $('curve').clientWidth || 640), H = 340, L = 48, R = 12, T = 10, B = 40;
  const state = JSON.stringify([view.id, lines.length, curves.sequence, end.toPrecision(3), W]);
  if ($('curve').shown === state) return;
  $('curve').shown = state;
  if (lines.length === 0) {
    $('curve').replaceChildren(el('p', {class: 'note'}, 'Nothing verified yet.'));
    return;
  }
  const all = lines.flatMap(l => l.steps);
  const from = Math.min(...all.map(s => s[0])) * 0.8, values = all.map(s => s[1]);
  const low = Math.min(1, ...values) * 0.95, high = Math.max(1.2, ...values) * 1.08;
  const x = t => L + (W - L - R) * Math.log(t / from) / Math.log(end / from);
  const y = v => H - B - (H - B - T) * Math.log(v / low) / Math.log(high / low);
  const svg = drawing(W, H, 'best so far against time, one line a workload');
  for (const t of logTicks(from, end)) {
    svg.append(shape('line', {class: 'grid', x1: x(t), x2: x(t), y1: T, y2: H - B}),
               shape('text', {x: x(t), y: H - B + 16, 'text-anchor': 'middle'}, short(t)));
  }
  for (const v of logTicks(low, high)) {
    svg.append(shape('line', {class: 'grid', x1: L, x2: W - R, y1: y(v), y2: y(v)}),
               shape('text', {x: L - 8, y: y(v) + 4, 'text-anchor': 'end'}, short(v) + '×'));
  }
  svg.append(shape('line', {class: 'axis', x1: L, x2: W - R, y1: H - B, y2: H - B}),
             shape('text', {x: (L + W - R) / 2, y: H - 6, 'text-anchor': 'middle'},
                   'seconds since the study was made'));
  const stepPath = steps => steps.map(([t, v], i) =>
      i === 0 ? `M${x(t).toFixed(1)} ${y(v).toFixed(1)}` : `H${x(t).toFixed(1)}V${y(v).toFixed(1)}`)
      .join('') + `H${x(end).toFixed(1)}`;
  for (const line of lines) {
    svg.append(shape('path', {class: `curve c${line.position % COLORS}`, d: stepPath(line.steps),
                              'data-position': line.position}));
  }
  const key = el('div', {class: 'key'},
                 el('span', {}, 'speed of the best so far, against the untuned answer'));
  if (lines.length > 1) {
    svg.append(shape('path', {class: 'mean', d: stepPath(meanSteps(lines))}));
    key.append(el('span', {}, 'thick: geometric mean'));
  }
  $('curve').replaceChildren(key, svg);
}
function meanSteps(lines) {
  const events = lines.flatMap((line, i) => line.steps.map(([t, v]) => [t, i, v]))
      .sort((a, b) => a[0] - b[0]);
  const current = new Map(), steps = [];
  for (const [t, i, v] of events) {
    current.set(i, v);
    if (current.size < lines.length) continue;
    const sum = [...current.values()].reduce((s, value) => s + Math.log(value), 0);
    steps.push([t, Math.exp(sum / current.size)]);
  }
  return steps.length ? steps : [[events[0][0], 1]];
}

// ---- devices and agents

let devicesAfter = '';
function deviceState(d) {
  if (d.admission === 'quarantined') return ['quarantined', 'bad'];
  if (!d.online) return ['offline', 'bad'];
  if (d.health !== 'ok') return [d.health, 'warn'];
  if (d.admission !== 'open') return [d.admission, 'warn'];
  return d.held.length ? ['busy', 'run'] : ['idle', 'good'];
}
// Schedules that led by its word, as boards of others found them.
function leaders(d) {
  if (!d.leaders_confirmed && !d.leaders_contradicted) return '-';
  return count(d.leaders_confirmed) + ' held' +
      (d.leaders_contradicted ? `, ${count(d.leaders_contradicted)} did not` : '');
}
async function devices() {
  const page = await get('devices', {after: devicesAfter, limit: 50});
  fill($('device-rows'), page.devices, d => d.id, d => {
    const [state, kind] = deviceState(d);
    const doing = d.held.length ? 'job ' + d.held.map(job => job.id).join(', ') : d.reason || '-';
    return [
      [state, '', () => pill(state, kind)],
      [d.id + d.agent + d.kind, '', () => named(d.id, `${d.kind || 'unknown'} of ${d.agent}`)],
      [doing + state, '', () => el('span', {class: kind === 'bad' ? 'bad-text' : ''}, doing)],
      [count(d.jobs_done), 'n wide'],
      [count(d.jobs_failed) + (d.failures ? ` (${d.failures} in a row)` : ''), 'n wide'],
      [leaders(d), 'n wide', () => el('span', {class: d.leaders_contradicted ? 'bad-text' : ''},
                                      leaders(d))],
      [d.target + (d.cores ? `, ${d.cores} cores` : ''), 'wide'],
      [span((now - d.seen_ms) / 1000) + ' ago', 'n wide'],
    ];
  }, 'No device yet: loopwright agent brings one.');
  $('devices-more').hidden = page.next === null;
  $('devices-more').onclick = () => { devicesAfter = page.next; refresh(devices); };
  $('devices-first').hidden = devicesAfter === '';
  alerts('devices', page.devices.filter(d => d.admission === 'quarantined')
      .map(d => `Device ${d.id} is quarantined: ${d.reason || 'no reason given'}`));
}
async function agents() {
  const page = await get('agents', {limit: 50});
  fill($('agent-rows'), page.agents, a => a.id, a => [
    [String(a.online), '', () => pill(a.online ? 'online' : 'offline', a.online ? 'good' : 'bad')],
    [a.id + a.version, '', () => named(a.id, `version ${a.version}`)],
    [Object.entries(a.labels).map(([name, value]) => `${name}=${value}`).join(', ') || '-'],
    [span((now - a.seen_ms) / 1000) + ' ago', 'n'],
  ], 'No agent yet.');
}

// A lane for each device, a bar for each job.
async function timeline() {
  const view = await get('timeline');
  const W = Math.max(300, $('timeline').clientWidth || 1200);
  const state = JSON.stringify([view, W]);
  if ($('timeline').shown === state) return;
  $('timeline').shown = state;
  const lanes = [...new Set(view.jobs.map(job => job.device))].sort().slice(0, 40);
  if (lanes.length === 0) {
    $('timeline').replaceChildren(el('p', {class: 'note'}, 'No job ran in the last half hour.'));
    return;
  }
  const first = Math.min(...view.jobs.map(job => job.start_ms), view.to_ms - 60000);
  const L = Math.min(150, W / 3.5), R = 12, lane = 22, H = lanes.length * lane + 28;
  const x = t => L + (W - L - R) * (t - first) / (view.to_ms - first);
  const svg = drawing(W, H, 'jobs on each device over the last half hour');
  lanes.forEach((device, i) => {
    const fits = Math.floor(L / 7);
    const name = device.length > fits ? device.slice(0, fits - 1) + '…' : device;
    svg.append(
        shape('text', {class: 'name', x: L - 8, y: i * lane + 15, 'text-anchor': 'end'}, name),
        shape('rect', {class: 'lane', x: L, y: i * lane + 3, width: W - L - R, height: lane - 6,
                       rx: 3}));
  });
  const known = {done: 1, leased: 1, dead: 1, cancelled: 1, queued: 1};
  for (const job of view.jobs) {
    const at = lanes.indexOf(job.device);
    if (at < 0) continue;
    const bar = shape('rect', {class: known[job.state] ? job.state : 'queued',
        x: x(job.start_ms), y: at * lane + 3,
        width: Math.max(1.5, x(job.end_ms) - x(job.start_ms) - 1), height: lane - 6, rx: 2});
    bar.append(shape('title', {}, `job ${job.id}, ${job.state}, study ${job.study}, ` +
        span((job.end_ms - job.start_ms) / 1000) +
        (job.attempt > 1 ? `, attempt ${job.attempt}` : '')));
    svg.append(bar);
  }
  const total = (view.to_ms - first) / 1000;
  const parts = W < 600 ? 2 : 4;
  for (let i = 0; i <= parts; ++i) {
    const ago = total * (1 - i / parts);
    svg.append(shape('text', {x: x(view.to_ms - 1000 * ago), y: H - 8,
        'text-anchor': i === 0 ? 'start' : i === parts ? 'end' : 'middle'},
        i === parts ? 'now' : span(ago) + ' ago'));
  }
  const key = el('div', {class: 'key'}, ...['done', 'leased', 'dead', 'cancelled'].map(kind =>
      el('span', {}, el('span', {class: 'swatch ' + kind}),
         {done: 'done', leased: 'running', dead: 'given up', cancelled: 'cancelled'}[kind])));
  $('timeline').replaceChildren(key, svg);
}

// ---- the queue and what failed

async function queue() {
  const view = await get('queue');
  fill($('queue-rows'), view.queue, q => q.target + '\n' + q.client, q => [
    [q.target], [q.client || 'anonymous'], [count(q.queued), 'n'], [count(q.leased), 'n'],
    [q.queued ? span((now - q.oldest_ms) / 1000) : '-', 'n'],
  ], 'No job waits or runs.');
}
async function failures() {
  const view = await get('failures');
  const W = Math.max(300, $('failures').clientWidth || 560);
  const state = JSON.stringify([view, W]);
  if ($('failures').shown === state) return;
  $('failures').shown = state;
  const sum = list => list.reduce((total, n) => total + n, 0);
  const classes = Object.keys(view.verdicts).filter(v => v !== 'ok').sort();
  const failed = sum(classes.map(v => sum(view.verdicts[v]))), good = sum(view.verdicts.ok || []);
  const note = el('p', {class: 'note'},
      `${count(failed)} of ${count(failed + good)} measurements failed` +
      (view.complete_from_ms > view.from_ms ?
       `; only the newest ones are counted, since ${span((now - view.complete_from_ms) / 1000)}` :
       '') + '.');
  if (failed === 0) { $('failures').replaceChildren(note); return; }
  const H = 210, L = 36, B = 24, T = 8, hours = 24, step = (W - L) / hours;
  const most = Math.max(...Array.from({length: hours},
      (_, i) => sum(classes.map(v => view.verdicts[v][i]))));
  const svg = drawing(W, H, 'failed measurements by hour and class');
  for (const part of [0, 0.5, 1]) {
    const at = H - B - (H - B - T) * part;
    if (part === 0.5 && most < 2) continue;
    svg.append(shape('line', {class: part ? 'grid' : 'axis', x1: L, x2: W, y1: at, y2: at}),
               shape('text', {x: L - 6, y: at + 4, 'text-anchor': 'end'}, short(most * part)));
  }
  for (let i = 0; i < hours; ++i) {
    let base = H - B;
    classes.forEach((name, c) => {
      const height = (H - B - T) * view.verdicts[name][i] / most;
      if (height === 0) return;
      base -= height;
      const bar = shape('rect', {class: `fill c${(c + 4) % COLORS}`, x: L + i * step + 1.5, y: base,
                                 width: step - 3, height});
      bar.append(shape('title', {},
          `${words(name)}: ${view.verdicts[name][i]}, ${hours - 1 - i} h ago`));
      svg.append(bar);
    });
    if (i % 6 === 5) svg.append(
        shape('text', {x: L + (i + 0.5) * step, y: H - 7, 'text-anchor': 'middle'},
              i === hours - 1 ? 'now' : `-${hours - 1 - i} h`));
  }
  const key = el('div', {class: 'key'}, ...classes.map((name, c) => el('span', {},
      el('span', {class: `swatch c${(c + 4) % COLORS}`}),
      `${words(name)} ${count(sum(view.verdicts[name]))}`)));
  $('failures').replaceChildren(key, svg, note);
}

// ---- schedules

// What a simulated machine's engines do, of the cycles that it takes: how long each is busy and how
// long its next instruction waits, by cause, also meanwhile; and what no order of them is below.
function engines(counters) {
  const cycles = counters && counters.cycles;
  if (!(cycles > 0)) return [];
  const under = prefix => Object.entries(counters).filter(([name]) => name.startsWith(prefix))
      .map(([name, value]) => [name.slice(prefix.length), value / cycles]);
  const percent = share => (100 * share).toFixed(1) + ' %';
  const bar = ([name, share], kind, note) => [el('span', {}, name),
      meter(share, percent(share), kind), el('small', {}, note)];
  // Waits for buses are added up over requests that wait at once: no share of the time.
  const waits = name => under(`stall.${name}.`).filter(([cause]) => cause !== 'bus')
      .map(([cause, share]) => `${cause} ${percent(share)}`).join(', ');
  return [el('details', {}, el('summary', {}, `engines, of ${count(cycles)} cycles`),
      el('div', {class: 'engines'},
         ...under('busy.').flatMap(one => bar(one, '',
             waits(one[0]) && 'its next waits: ' + waits(one[0]))),
         ...under('bound.').flatMap(one => bar(one, 'done', 'at least'))))];
}

let schedulesAfter = 0;
async function schedules() {
  const search = $('search').value;
  const page = await get('schedules', {search, after: schedulesAfter || '', limit: 15});
  if (search !== $('search').value) return;
  fill($('schedule-rows'), page.schedules, s => s.id, s => [
    [s.name + s.words + s.trace, '', () => {
      const cell = named(s.words || s.name,
          `${s.name} · ${s.workload.slice(0, 12)} · ${s.backend}, ${s.cache}`);
      if (s.trace) cell.append(
          el('details', {}, el('summary', {}, 'schedule'), el('code', {}, s.trace)),
          ...engines(s.counters));
      return cell;
    }],
    [kindly(s.best_us, s.time_kind), 'n'], [s.gflops > 0 ? s.gflops.toPrecision(4) : '-', 'n'],
    [count(s.traces), 'n wide'], [String(s.threads), 'n wide'], [s.target, 'wide'],
  ], search ? 'Nothing found here.' : 'No schedule yet.');
  $('schedules-more').hidden = page.next === null;
  $('schedules-more').onclick = () => { schedulesAfter = page.next; refresh(schedules); };
  $('schedules-first').hidden = schedulesAfter === 0;
  $('schedules-note').textContent = page.next !== null && page.schedules.length < 15 ?
      'The database is large: "more" searches on.' : '';
}

// ---- keeping up

// A view that fails shows why at the top; the others go on.
async function refresh(view) {
  try {
    await view();
    if (problems[view.name + ' failed']) alerts(view.name + ' failed', []);
    return true;
  } catch (error) {
    const lost = error instanceof TypeError;
    if (lost) $('status').textContent = 'the server does not answer; trying again ...';
    else alerts(view.name + ' failed', [`${view.name}: ${error.message}`]);
    return false;
  }
}
async function keep(views, every) {
  for (;;) {
    if (!document.hidden) for (const view of views) await refresh(view);
    await new Promise(resolve => setTimeout(resolve, every));
  }
}
$('state').addEventListener('change', () => { before = ''; refresh(studies); });
$('newest').addEventListener('click', () => { before = ''; refresh(studies); });
$('devices-first').addEventListener('click', () => { devicesAfter = ''; refresh(devices); });
$('schedules-first').addEventListener('click', () => { schedulesAfter = 0; refresh(schedules); });
let typing = 0;
$('search').addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(() => { schedulesAfter = 0; refresh(schedules); }, 250);
});
keep([overview, studies, study, devices, timeline, queue], FAST_MS);
keep([failures, studyFailures, agents, schedules], SLOW_MS);
