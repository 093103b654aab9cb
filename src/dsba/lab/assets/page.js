"use strict";
(() => {
  let data = JSON.parse(document.getElementById("data").textContent);
  const COSTS = ["passes", "work", "rounds", "doubles_max", "bytes_max", "seconds", "cpu_seconds", "time"];
  const SHORT = {
    passes: "passes", nominal_passes: "nominal passes", rounds: "rounds", doubles_max: "DOUBLEs", bytes_max: "bytes",
    index_bytes_max: "index bytes", seconds: "seconds", cpu_seconds: "CPU seconds", work: "work", gap: "gap", distance: "distance", consensus: "consensus",
    residual: "residual", auc: "AUC", test_auc: "test AUC", time: "time on the network",
  };
  const X = ["passes", "nominal_passes", "work", "rounds", "doubles_max", "bytes_max", "seconds", "cpu_seconds", "time"];
  const isLinear = (metric) => !data.logarithmic.includes(metric);
  const short = (name) => SHORT[name] ?? name.replaceAll("_", " ");
  const columns = (it) => unique(it.curves.flatMap((c) => Object.keys(c.mid))).filter((name) => !X.includes(name) && name !== "index_bytes_max");
  const link = { ...data.link };
  const FLOOR = 1e-15;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const chosen = { case: 0, x: "passes", y: null, tolerance: null, asked: false }; // asked: by the reader
  const hidden = new Set(); // methods switched off in the legend

  const $ = (id) => document.getElementById(id);
  const el = (tag, attributes = {}, ...children) => {
    const node = tag.startsWith("svg:")
      ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const fill = (id, ...children) => $(id).replaceChildren(...children);
  const color = (look) => (dark.matches && look.color === "#000000" ? "#f2f2f2" : look.color);
  const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;"); // the library reads markup in names
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function number(value, digits = 3) {
    if (value === null || value === undefined) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e15 || size < 1e-2) return value.toExponential(1);
    const units = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]];
    for (const [unit, letter] of units) {
      if (size >= unit) return (value / (unit === 1e4 ? 1e3 : unit)).toPrecision(digits) + " " + letter;
    }
    return String(Number(value.toPrecision(digits)));
  }

  // Choices ------------------------------------------------------------------------------------

  function group(name, options, current, choose) {
    const buttons = options.map(([key, label]) => {
      const button = el("button", { type: "button", "aria-pressed": String(key === current) }, label);
      button.dataset.key = key;
      button.addEventListener("click", () => { choose(key); render(); });
      return button;
    });
    return el("div", { class: "group", role: "group", "aria-label": name }, el("span", {}, name), ...buttons);
  }

  const unique = (values) => [...new Set(values)];

  function renderChoices(it) {
    const groups = ["problem", "data", "network", "split"].map((key) => {
      const values = unique(data.cases.map((c) => c[key]));
      if (values.length < 2 && key !== "problem" && key !== "data") return null;
      const pick = (value) => {
        const wanted = { ...it, [key]: value };
        const agreement = (c) => (c[key] === value ? 10 : 0)
          + ["problem", "data", "network", "split"].filter((k) => c[k] === wanted[k]).length;
        const best = data.cases.reduce((a, b) => (agreement(b) > agreement(a) ? b : a));
        chosen.case = data.cases.indexOf(best);
        chosen.tolerance = null; chosen.asked = false;
      };
      return group(key, values.map((v) => [v, v]), it[key], pick);
    });
    fill("pick-case", ...groups.filter(Boolean));
    const has = (name) => it.curves.some((c) => name in c.mid);
    const axes = (names) => names.filter((name) => has(name) || name === "time").map((name) => [name, short(name)]);
    fill("pick-axes",
      group("horizontal", axes(X), chosen.x, (key) => { chosen.x = key; }),
      group("vertical", axes(columns(it)), chosen.y, (key) => { chosen.y = key; }));
    const reached = data.tolerances.map((tol, k) => [k, tol.toExponential(0)]);
    fill("pick-tolerance", group(`relative ${it.metric}`, reached, chosen.tolerance, (key) => { chosen.tolerance = key; chosen.asked = true; }));
  }

  // Time on a network: the nodes compute side by side, every round waits, every byte takes its time -------------

  const duration = ([seconds, rounds, bytes], nodes, { latency, bandwidth }) =>
    seconds / nodes + rounds * latency + 8 * bytes / bandwidth;

  const along = (curve, it, name = chosen.x) => (name !== "time" ? curve.mid[name]
    : curve.mid.seconds.map((s, k) => duration([s, curve.mid.rounds[k], curve.mid.bytes_max[k]], it.nodes, link)));

  function median(values) {
    const sorted = [...values].sort((a, b) => a - b), half = (sorted.length - 1) / 2;
    return (sorted[Math.floor(half)] + sorted[Math.ceil(half)]) / 2;
  }

  function timeTo(curve, it, on, tolerance) {
    return median(curve.reached[tolerance].map((parts) => (parts ? duration(parts, it.nodes, on) : Infinity)));
  }

  // Who is the fastest; null where nobody is, or where one that its budget stopped might have been faster.
  function race(it, on, tolerance) {
    const times = it.curves.map((curve) => timeTo(curve, it, on, tolerance));
    const least = Math.min(...times);
    const first = it.curves.filter((_, k) => times[k] === least && Number.isFinite(least)).map((c) => c.method);
    const stopped = it.curves.filter((curve, k) => !Number.isFinite(times[k])
      && curve.spent.some((parts) => duration(parts, it.nodes, on) < least)).map((c) => c.method);
    return { first: Number.isFinite(least) ? first : [], stopped: Number.isFinite(least) ? stopped : [] };
  }

  const quantity = (value, unit) => {
    const steps = unit === "s" ? [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]] : [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"]];
    const [size, name] = steps.find(([least]) => value >= 0.9995 * least) ?? steps.at(-1);
    return `${Number((value / size).toPrecision(3))} ${name}`;
  };

  function renderLink() {
    for (const [name, unit] of [["latency", "s"], ["bandwidth", "bit"]]) {
      const slider = $(name);
      slider.value = Math.log10(Math.max(link[name], 1e-9));
      slider.nextElementSibling.value = quantity(link[name], unit);
      slider.oninput = () => { link[name] = 10 ** Number(slider.value); render(); };
    }
  }

  function renderMap(it) {
    const latencies = Array.from({ length: 57 }, (_, k) => 10 ** (-6 + k / 8));
    const bandwidths = Array.from({ length: 57 }, (_, k) => 10 ** (4 + k / 8));
    const methods = it.curves.map((c) => c.method);
    const tolerance = chosen.asked ? chosen.tolerance : it.map_tolerance; // until a reader asks: where most is decided
    const z = latencies.map((latency) => bandwidths.map((bandwidth) => {
      const { first, stopped } = race(it, { latency, bandwidth }, tolerance);
      return first.length && !stopped.length ? methods.indexOf(first[0]) : null;
    }));
    const n = methods.length, scale = methods.flatMap((m, k) => [[k / n, color(data.styles[m])], [(k + 1) / n, color(data.styles[m])]]);
    const present = methods.filter((_, k) => z.some((row) => row.includes(k)));
    const keys = present.map((m) => ({ x: [null], y: [null], type: "scatter", mode: "markers", name: plain(m),
      marker: { symbol: "square", size: 12, color: color(data.styles[m]) } }));
    const here = { x: [link.bandwidth], y: [link.latency], type: "scatter", mode: "markers", name: "the sliders",
      marker: { symbol: "circle-open", size: 12, color: ink("--ink"), line: { width: 2 } } };
    const axis = { type: "log", gridcolor: ink("--line"), zeroline: false, automargin: true, exponentformat: "SI", dtick: 1 };
    Plotly.react("map", [{ x: bandwidths, y: latencies, z, type: "heatmap", colorscale: scale, zmin: -0.5, zmax: n - 0.5,
      showscale: false, hovertemplate: "latency %{y:.2~s}s, bandwidth %{x:.2~s}bit/s<br>%{text}<extra></extra>",
      text: z.map((row) => row.map((k) => (k === null ? "undecided" : plain(methods[k])))) }, ...keys, here], {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink("--ink"), size: 13 },
      margin: { l: 64, r: 12, t: 12, b: 48 }, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      xaxis: { ...axis, range: [4, 11], title: { text: "bandwidth, bits a second into a node", font: { size: 13 } } },
      yaxis: { ...axis, range: [-6, 1], title: { text: "latency, seconds a round", font: { size: 13 } } },
    }, { responsive: true, displayModeBar: false });
    $("map-note").textContent = `To reach a relative ${it.metric} of ${data.tolerances[tolerance].toExponential(0)}. Nothing is drawn where nobody `
      + "reaches it, or where a method that its budget stopped might have been faster.";
  }

  // Curves -------------------------------------------------------------------------------------

  function shown(values) {
    if (isLinear(chosen.y)) return values;
    const missing = (v) => v === null || (v === 0 && chosen.y === "consensus"); // all nodes start at one point
    return values.map((v) => (missing(v) ? null : Math.max(v, FLOOR)));
  }

  function traces(it) {
    const all = [], wide = isWide(it); // zero has no place on a logarithmic axis
    for (const curve of it.curves) {
      if (!(chosen.y in curve.mid)) continue;
      const look = data.styles[curve.method], line = color(look);
      const x = wide ? along(curve, it).map((v) => (v > 0 ? v : null)) : along(curve, it);
      const off = hidden.has(curve.method) ? "legendonly" : true;
      if (curve.low) {
        const band = { x, type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false,
          legendgroup: curve.method, visible: off };
        all.push({ ...band, y: shown(curve.low[chosen.y]) });
        all.push({ ...band, y: shown(curve.high[chosen.y]), fill: "tonexty", fillcolor: line + "33" });
      }
      all.push({
        x, y: shown(curve.mid[chosen.y]), type: "scatter", mode: "lines+markers", name: plain(curve.method), meta: curve.method,
        legendgroup: curve.method, visible: off,
        line: { color: line, width: 2, dash: look.dash }, marker: { color: line, symbol: look.symbol, size: 7, maxdisplayed: 10 },
        hovertemplate: `%{y:.3~g} at %{x:.4~s}` + (curve.constants ? `<br>${plain(curve.constants)}` : ""),
      });
    }
    return all;
  }

  function isWide(it) {
    if (chosen.x.endsWith("passes")) return false;
    const ends = it.curves.map((c) => Math.max(...along(c, it).filter((v) => v !== null))).filter((v) => v > 0);
    return ends.length > 0 && Math.max(...ends) > 30 * Math.min(...ends);
  }

  function layout(it) {
    const text = ink("--soft"), grid = ink("--line"), wide = isWide(it);
    const axis = { gridcolor: grid, zeroline: false, linecolor: grid, tickcolor: grid, automargin: true };
    const marks = [], notes = [];
    if (chosen.x === "doubles_max") {
      marks.push({ type: "line", x0: it.ship_all, x1: it.ship_all, yref: "paper", y0: 0, y1: 1,
        line: { color: text, width: 1.5, dash: "dot" } });
      notes.push({ x: wide ? Math.log10(it.ship_all) : it.ship_all, y: 1, yref: "paper", xanchor: "left", yanchor: "top",
        showarrow: false, text: " ship all data once", font: { color: text, size: 12 } });
    }
    if (chosen.y in it.levels) {
      marks.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: it.levels[chosen.y], y1: it.levels[chosen.y],
        line: { color: text, width: 1.5, dash: "dash" } });
      notes.push({ xref: "paper", x: 1, y: it.levels[chosen.y], xanchor: "right", yanchor: "bottom", showarrow: false,
        text: "the optimum's", font: { color: text, size: 12 } });
    }
    const narrow = window.innerWidth < 760;
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink("--ink"), size: 13 },
      title: { text: plain(`${it.problem} · ${it.data} · ${it.network} · split ${it.split}`), font: { size: narrow ? 11 : 13 }, x: 0.01, xanchor: "left", y: 0.985, yanchor: "top" },
      margin: { l: narrow ? 50 : 64, r: 12, t: 34, b: 48 }, hovermode: "closest", shapes: marks, annotations: notes,
      dragmode: "zoom", modebar: { bgcolor: "rgba(0,0,0,0)", color: text, activecolor: ink("--accent") },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", itemclick: "toggle" },
      xaxis: { ...axis, title: { text: data.axes[chosen.x], font: { size: 13 } }, type: wide ? "log" : "linear",
        rangemode: "tozero", exponentformat: "SI", dtick: wide ? 1 : undefined },
      yaxis: { ...axis, title: narrow ? undefined : { text: data.axes[chosen.y], font: { size: 13 } },
        type: isLinear(chosen.y) ? "linear" : "log", exponentformat: "power", nticks: 8, dtick: decades(it) < 2.5 && !isLinear(chosen.y) ? "D2" : undefined,
        range: isLinear(chosen.y) ? linearRange(it) : undefined },
      uirevision: `${chosen.case} ${chosen.x} ${chosen.y}`, // zoom survives a refresh, not a change of axes
    };
  }

  function decades(it) {
    const values = it.curves.flatMap((c) => c.mid[chosen.y] || []).filter((v) => v > 0);
    return Math.log10(Math.max(...values) / Math.max(Math.min(...values), FLOOR));
  }

  function linearRange(it) {
    const values = it.curves.flatMap((c) => (c.mid[chosen.y] || []).slice(1)).filter((v) => v !== null);
    const all = chosen.y in it.levels ? [...values, it.levels[chosen.y]] : values;
    const low = Math.min(...all), high = Math.max(...all);
    const margin = Math.max(0.06 * (high - low), 1e-4);
    return [low - margin, high + margin];
  }

  function renderChart(it) {
    const config = { responsive: true, displaylogo: false, displayModeBar: window.innerWidth >= 760,
      modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]] };
    Plotly.react("chart", traces(it), layout(it), config);
    const chart = $("chart");
    chart.removeAllListeners("plotly_legendclick");
    chart.on("plotly_legendclick", (event) => {
      const name = event.data[event.curveNumber].meta;
      if (hidden.has(name)) hidden.delete(name); else hidden.add(name);
      render();
      return false;
    });
    const seeds = data.seeds > 1 ? `Lines are medians of ${data.seeds} seeds, bands go from ${data.band === "quartiles" ? "the first to the third quartile" : "the least to the largest"}; curves end where the first seed stops. ` : "";
    $("chart-note").textContent = seeds + "Drag to zoom, double-click to zoom out, click a name to hide its curve."
      + (it.certified ? "" : ` The reference is not certified: its relative residual is ${number(it.residual)}.`);
  }

  // Tables -------------------------------------------------------------------------------------

  const last = (values) => (values ? values[values.length - 1] : null);

  function table(id, heads, rows) {
    const head = el("tr", {}, ...heads.map((h) => el("th", h.text ? { class: "text", scope: "col" } : { scope: "col" }, h.name)));
    const body = rows.map((row) => el("tr", {}, ...row.map((cell, i) => {
      const td = el("td", { class: [cell.win ? "win" : "", heads[i].text ? "text" : "", cell.wrap ? "wrap" : ""].join(" ") });
      if (cell.swatch) td.append(el("span", { class: "swatch", style: `background:${cell.swatch}` }));
      td.append(cell.value);
      if (cell.title) td.title = cell.title;
      return td;
    })));
    fill(id, el("thead", {}, head), el("tbody", {}, ...body));
  }

  function renderTable(it) {
    const finals = unique([it.metric, ...columns(it).filter(isLinear)]);
    const measured = [
      ...COSTS.map((cost) => (cost === "time"
        ? { name: "time (s)", of: (c) => { const t = timeTo(c, it, link, chosen.tolerance); return Number.isFinite(t) ? t : null; }, verdict: race(it, link, chosen.tolerance) }
        : { name: SHORT[cost], of: (c) => c.costs[chosen.tolerance][cost], verdict: it.verdicts[chosen.tolerance][cost] })),
      ...finals.map((m) => ({ name: `final ${short(m)}`, of: (c) => last(c.mid[m]), digits: isLinear(m) ? 5 : 3 })),
    ];
    const heads = [{ name: "method" }, ...measured, { name: "constants", text: true }, { name: "ended", text: true },
      { name: "runs", text: true }];
    const rows = it.curves.map((curve) => [
      { value: curve.method, swatch: color(data.styles[curve.method]) },
      ...measured.map((column) => {
        const cell = { value: number(column.of(curve), column.digits) };
        const { first, stopped } = column.verdict ?? { first: [], stopped: [] };
        if (stopped.includes(curve.method)) return { value: "undecided", title: "its budget ended before it had spent as much as the first" };
        if (!first.includes(curve.method)) return cell;
        return stopped.length ? { ...cell, title: `cheapest to this tolerance; undecided: ${stopped.join(", ")}` } : { ...cell, win: true };
      }),
      { value: curve.constants }, { value: curve.status, title: curve.message }, { value: curve.runs, wrap: true },
    ]);
    table("results", heads, rows);
  }

  function renderTuning(it) {
    const warned = it.tuning.some((t) => t.warnings.length);
    const tried = (t) => el("details", {}, el("summary", {}, `${t.candidates.length} settings`), t.candidates.join(";  "));
    const rows = it.tuning.map((t) => [
      { value: t.method }, { value: t.parameters }, { value: number(t.factor) },
      ...(warned ? [{ value: t.warnings.join(" "), wrap: true }] : []), { value: tried(t), wrap: true },
    ]);
    const heads = [{ name: "method" }, { name: "chosen", text: true }, { name: "times auto" },
      ...(warned ? [{ name: "warnings", text: true }] : []), { name: `tried: factor → ${it.metric}`, text: true }];
    table("tuning", heads, rows);
    $("tuning-note").textContent = it.tuning.length
      ? "Successive halving: the whole grid for a few passes, the better half for twice as many, and so on; then "
        + "values around the best until its neighbours are within a factor of 1.09."
      : "No step size was tuned here; the table of results says which ones were used.";
  }

  // Network and data ---------------------------------------------------------------------------

  function renderNetwork(it) {
    const net = data.networks[it.network];
    if (!net) {
      fill("network"); fill("spectrum");
      $("network-note").textContent = `${it.network}: every seed has a graph of its own, or the folder does not say how nodes are linked.`;
      return;
    }
    const size = 320, pad = 22, at = ([x, y]) => [pad + x * (size - 2 * pad), pad + y * (size - 2 * pad)];
    const svg = el("svg:svg", { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": `Graph of ${net.nodes} nodes` });
    for (const [n, m] of net.edges) {
      const [x1, y1] = at(net.positions[n]), [x2, y2] = at(net.positions[m]);
      svg.append(el("svg:line", { x1, y1, x2, y2, stroke: ink("--soft"), "stroke-width": 1.3, "stroke-opacity": 0.55 }));
    }
    const r = net.nodes > 30 ? 6 : 12;
    net.positions.forEach((position, n) => {
      const [cx, cy] = at(position);
      const rows = it.node_rows ? `: ${it.node_rows[n]} rows` : "";
      svg.append(el("svg:circle", { cx, cy, r, fill: ink("--accent") }, el("svg:title", {}, `node ${n}${rows}`)));
      if (r > 8) svg.append(el("svg:text", { class: "node", x: cx, y: cy + 4, "text-anchor": "middle" }, String(n)));
    });
    fill("network", svg);
    $("network-note").textContent = `${it.network}: ${net.edges.length} edges, diameter ${net.diameter}, `
      + `γ = ${number(net.gamma)}, κ_g = 1/γ = ${number(1 / net.gamma)}.`;
    renderSpectrum(net);
  }

  function renderSpectrum(net) {
    const width = 320, height = 84, at = (value) => 14 + value * (width - 28);
    const svg = el("svg:svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Spectrum, gamma ${number(net.gamma)}` });
    svg.append(el("svg:line", { x1: at(0), x2: at(1), y1: 56, y2: 56, stroke: ink("--line"), "stroke-width": 1.5 }));
    for (const tick of [0, 0.25, 0.5, 0.75, 1]) svg.append(el("svg:text", { x: at(tick), y: 74, "text-anchor": "middle" }, String(tick)));
    for (const value of net.eigenvalues) {
      svg.append(el("svg:line", { x1: at(value), x2: at(value), y1: 34, y2: 56, stroke: ink("--accent"), "stroke-width": 2 },
        el("svg:title", {}, number(value, 4))));
    }
    const gap = at(1 - net.gamma);
    svg.append(el("svg:line", { x1: gap, x2: at(1), y1: 24, y2: 24, stroke: ink("--soft"), "stroke-width": 1.3 }));
    svg.append(el("svg:text", { x: (gap + at(1)) / 2, y: 16, "text-anchor": net.gamma < 0.2 ? "end" : "middle" }, `γ = ${number(net.gamma)}`));
    fill("spectrum", svg);
  }

  function renderData(it) {
    const facts = Object.entries(it.facts);
    fill("facts", ...facts.flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, typeof value === "number" ? number(value, 4) : String(value))]));
    if (!it.node_rows) return fill("split");
    const most = Math.max(...it.node_rows), width = 320, row = Math.max(8, Math.min(18, 260 / it.node_rows.length));
    const svg = el("svg:svg", { viewBox: `0 0 ${width} ${row * it.node_rows.length + 22}`, role: "img", "aria-label": "Rows at each node" });
    it.node_rows.forEach((rows, n) => {
      const full = (rows / most) * (width - 90), positive = (it.node_positives[n] / most) * (width - 90), y = n * row;
      svg.append(el("svg:text", { x: 16, y: y + row - 4, "text-anchor": "end" }, String(n)));
      svg.append(el("svg:rect", { x: 24, y: y + 1, width: positive, height: row - 3, fill: ink("--accent") }));
      svg.append(el("svg:rect", { x: 24 + positive, y: y + 1, width: full - positive, height: row - 3, fill: ink("--accent"), "fill-opacity": 0.3 }));
      svg.append(el("svg:text", { x: 30 + full, y: y + row - 4 }, number(rows, 4)));
    });
    svg.append(el("svg:text", { x: 24, y: row * it.node_rows.length + 15 }, "dark: labels above zero; light: the others"));
    fill("split", svg);
  }

  // All ----------------------------------------------------------------------------------------

  function renderAbout() {
    document.title = data.title;
    $("title").textContent = data.title;
    $("lead").textContent = data.lead;
    fill("command", "Command: ", el("code", {}, data.command || "dsba.lab.run(...)"));
    fill("versions", ...data.made.map((line) => el("li", {}, line)));
    fill("warnings", ...data.warnings.map((sentence) => el("li", {}, sentence)));
    $("warnings").hidden = !data.warnings.length;
    fill("left-out", ...data.left_out.map((sentence) => el("li", {}, sentence)));
    $("config").textContent = data.config;
    $("live").hidden = !data.live;
    $("live").textContent = data.live ? `running: ${data.finished} of ${data.planned} runs finished` : "";
  }

  function render() {
    const it = data.cases[Math.min(chosen.case, data.cases.length - 1)];
    renderAbout();
    document.querySelector("main").hidden = !it;
    if (!it) return;
    const has = (name) => it.curves.some((c) => name in c.mid);
    if (!chosen.y || !has(chosen.y)) chosen.y = it.metric;
    if (!has(chosen.x) && chosen.x !== "time") chosen.x = "passes";
    chosen.tolerance ??= it.tolerance;
    $("shown").textContent = `${it.problem} · ${it.data} · ${it.network} · split ${it.split} · latency ${quantity(link.latency, "s")}, bandwidth ${quantity(link.bandwidth, "bit")}`;
    renderChoices(it);
    renderLink();
    renderChart(it);
    renderTable(it);
    renderMap(it);
    renderNetwork(it);
    renderData(it);
    renderTuning(it);
  }

  async function poll() {
    try {
      const answer = await fetch("report.json", { cache: "no-store", signal: AbortSignal.timeout(5000) });
      if (answer.ok) { data = await answer.json(); render(); }
    } catch { $("live").textContent = "the server has gone; what is shown is what was there"; return; }
    if (data.live) setTimeout(poll, 2000);
  }

  dark.addEventListener("change", render);
  render();
  if (data.live && location.protocol.startsWith("http")) setTimeout(poll, 1000);
})();
