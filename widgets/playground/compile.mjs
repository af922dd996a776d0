// Bytecode of the Python that a page runs: node compile.mjs FOLDER. In it lie `package` (Pyodide), two archives and
// `examples.json`; it writes `compiled.zip`, the archives again. What the recipes of the examples import is compiled, the
// rest, which few clicks reach, stays source, because bytecode is larger.
import { readFileSync, writeFileSync } from "node:fs";
const folder = process.argv[2];
const { loadPyodide } = await import(`${folder}/package/pyodide.mjs`);
const python = await loadPyodide({ indexURL: `${folder}/package/`, env: { PYTHONNODEBUGRANGES: "1" } });
for (const name of ["python_stdlib.zip", "engine.zip", "examples.json"]) python.FS.writeFile(`/${name}`, new Uint8Array(readFileSync(`${folder}/${name}`)));
python.runPython(`
import importlib.util, io, json, marshal, sys, zipfile
sys.path[:0] = ["/engine.zip/columns", "/engine.zip"]
from widgets.playground import kernel
for recipe in json.load(open("/examples.json")):
    kernel.begin(json.dumps(recipe))
used = set(sys.modules)

def entry_of(name):
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))

def compiled(archive):
    packed = io.BytesIO()
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(packed, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            module = name.removeprefix("columns/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            if module in used and name.endswith(".py"):
                code = compile(data, name, "exec", dont_inherit=True)
                name, data = name + "c", importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code)
            target.writestr(entry_of(name), data, zipfile.ZIP_DEFLATED, 9)
    return packed.getvalue()

with zipfile.ZipFile("/compiled.zip", "w") as both:
    for name in ("python_stdlib.zip", "engine.zip"):
        both.writestr(entry_of(name), compiled("/" + name))
`);
writeFileSync(`${folder}/compiled.zip`, python.FS.readFile("/compiled.zip"));
process.exit(0); // Pyodide would keep the process
