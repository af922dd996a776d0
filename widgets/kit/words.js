// Numbers as text where only the browser knows them: the same words as kit/format.py gives (a test compares).
const lwCount = (n) => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",").replace("-", "−");
const lwPlural = (n, noun) => `${lwCount(n)} ${noun}${n === 1 ? "" : "s"}`;
// Halves go to the even neighbour, as in Python.
const lwEven = (v) => { const low = Math.floor(v), rest = v - low; return rest < 0.5 ? low : rest > 0.5 ? low + 1 : low + (low % 2); };
function lwFixed(v, digits) {
  const scaled = v * 10 ** digits;
  return scaled - Math.floor(scaled) === 0.5 ? (lwEven(scaled) / 10 ** digits).toFixed(digits) : v.toFixed(digits);
}
function lwBytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let value = Math.abs(n), unit = 0;
  while (unit < units.length - 1 && value >= (unit ? 1023.5 : 1024)) { value /= 1024; unit += 1; }
  const sign = n < 0 ? "−" : "", digits = Number(lwFixed(value, 2)) < 10 ? 2 : Number(lwFixed(value, 1)) < 100 ? 1 : 0;
  return unit ? `${sign}${lwFixed(value, digits)} ${units[unit]}` : `${sign}${Math.trunc(value)} B`;
}
function lwShort(n) {
  const three = (v) => lwFixed(v, Number(lwFixed(v, 2)) < 10 ? 2 : Number(lwFixed(v, 1)) < 100 ? 1 : 0);
  if (n < 999.5) return lwFixed(n, 0);
  if (n < 999500) return `${lwFixed(n / 1e3, n / 1e3 < 9.95 ? 1 : 0)} k`;
  if (n < 999.5e6) return `${three(n / 1e6)} M`;
  return n < 999.5e9 ? `${three(n / 1e9)} G` : `${three(n / 1e12)} T`;
}
function lwPercent(part, whole) {
  if (whole <= 0) return "–";
  const share = (100 * part) / whole;
  if (share > 0 && share < 0.5) return "< 1 %";
  return share >= 99.5 && share < 100 ? "99 %" : `${lwEven(share)} %`;
}
function lwKey(text) {
  if (text == null) return "null";
  const whole = /^\[?(-?\d{1,18})\]?$/.exec(text);
  return whole ? BigInt(whole[1]).toString().replace(/\B(?=(\d{3})+$)/g, ",").replace("-", "−") : text;
}
function lwFileName(name, keep = 26) {
  if (name.length <= keep) return name;
  const tail = /-\d+\.\w+$/.exec(name), third = Math.floor(keep / 3);
  const ending = tail && tail[0].length < keep - 6 ? tail[0] : name.slice(-third);
  return `${name.slice(0, Math.max(keep - ending.length - 1, 4))}…${ending}`;
}
function lwClock(ms) {
  const at = new Date(ms), two = (n) => String(n).padStart(2, "0");
  return `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
}
const lwEsc = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
