// A front end such as marimo shows a widget in a shadow root, which the style of the document does not reach.
const lwSheets = new WeakMap();
function lwDress(el, css) {
  const root = el.getRootNode();
  if (!(root instanceof ShadowRoot) || lwSheets.has(root)) return;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
  lwSheets.set(root, sheet);
}
