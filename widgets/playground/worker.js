// Python in a worker: everything comes with the first message, as text; nothing is asked of the network.
self.importScripts = undefined; // so that Pyodide takes its modules from where they are given
function bytes(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text), all = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) all[i] = letters.charCodeAt(i);
  return all;
}
const inflated = (text, type) =>
  new Response(new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("deflate")), { headers: { "Content-Type": type } });
const module = async (text) => import(URL.createObjectURL(await inflated(text, "text/javascript").blob()));
async function begin({ files, recipe, lock }) {
  const answers = {
    "pyodide.asm.wasm": () => inflated(files["pyodide.asm.wasm"], "application/wasm"), // compiled while it is inflated
    "python_stdlib.zip": () => new Response(bytes(files["python_stdlib.zip"])),
  };
  self.fetch = async (url) => {
    const answer = answers[String(url.url || url).split("/").pop()];
    if (!answer) throw new Error(`this page asks the network for nothing, not for ${url}`);
    return answer();
  };
  const [{ default: createPyodideModule }, { loadPyodide }] = await Promise.all([module(files["pyodide.asm.mjs"]), module(files["pyodide.mjs"])]);
  const python = await loadPyodide({ indexURL: "page:/", createPyodideModule, lockFileContents: lock });
  python.FS.writeFile("/engine.zip", bytes(files["engine.zip"]));
  python.runPython("import sys; sys.path[:0] = ['/engine.zip/columns', '/engine.zip']");
  const kernel = python.pyimport("widgets.playground.kernel");
  self.onmessage = ({ data }) => {
    try { postMessage({ number: data.number, changes: JSON.parse(kernel.receive(JSON.stringify(data.message))) }); }
    catch (e) { postMessage({ number: data.number, error: lastLine(e) }); }
  };
  self.python = python;
  return JSON.parse(kernel.begin(recipe, (changes) => postMessage({ changes: JSON.parse(changes) })));
}
const lastLine = (e) => String(e.message || e).trim().split("\n").pop();
self.onmessage = async ({ data }) => {
  try { postMessage({ views: await begin(data) }); } catch (e) { postMessage({ error: lastLine(e), whole: String(e) }); }
};
