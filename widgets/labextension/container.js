// What JupyterLab loads: the container of a federated extension, in the form that its webpack runtime asks for. Modules
// come from the page's own share scope, never with this file, as tokens are compared by identity.
const NAME = "tablestore-workbench";
let scope;
async function use(name) {
  const versions = scope[name] || {}, there = Object.keys(versions);
  if (!there.length) throw Error(`${name} is not shared by this JupyterLab`);
  return (await versions[there.find((version) => versions[version].loaded) || there[0]].get())();
}
async function modules(names) {
  return Object.assign({}, ...(await Promise.all(names.map(use))));
}
function el(tag, attrs = {}, ...kids) {
  const node = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) {
    if (k.startsWith("on")) node.addEventListener(k.slice(2), v);
    else if (v !== false && v != null) node.setAttribute(k, v === true ? "" : v);
  }
  node.append(...kids);
  return node;
}
const sleep = (ms) => new Promise((go) => setTimeout(go, ms));
