// Python in a worker: everything comes with the first message; nothing is asked of the network.
self.importScripts = undefined; // so that Pyodide takes its modules from where they are given
const module = (text) => import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
async function begin({ wasm, stdlib, asm, api, engine, recipe, lock }) {
  const answers = { "pyodide.asm.wasm": [wasm, "application/wasm"], "python_stdlib.zip": [stdlib, "application/zip"] };
  self.fetch = async (url) => {
    const [body, type] = answers[String(url.url || url).split("/").pop()] || [];
    if (!body) throw new Error(`this page asks the network for nothing, not for ${url}`);
    return new Response(body, { headers: { "Content-Type": type } });
  };
  const [{ default: createPyodideModule }, { loadPyodide }] = [await module(asm), await module(api)];
  const python = await loadPyodide({ indexURL: "page:/", createPyodideModule, lockFileContents: lock });
  python.unpackArchive(engine, "zip", { extractDir: "/engine" });
  python.runPython("import sys; sys.path[:0] = ['/engine/columns', '/engine']");
  const kernel = python.pyimport("widgets.playground.kernel");
  self.onmessage = ({ data }) => {
    try { postMessage({ number: data.number, changes: JSON.parse(kernel.receive(JSON.stringify(data.message))) }); }
    catch (e) { postMessage({ number: data.number, error: lastLine(e) }); }
  };
  self.python = python;
  return JSON.parse(kernel.begin(recipe));
}
const lastLine = (e) => String(e.message || e).trim().split("\n").pop();
self.onmessage = async ({ data }) => {
  try { postMessage({ views: await begin(data) }); } catch (e) { postMessage({ error: lastLine(e), whole: String(e) }); }
};
