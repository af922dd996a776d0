// Roles of a picture, as its place asks for them: rows and cells have a meaning in a grid only, a cell stands in a row
// there, what has items has one at least, and a part with a name of its own is not read out twice.
const LW_ITEMS = { grid: "gridcell", list: "listitem", listbox: "option", tree: "treeitem" };
const LW_NAMED = ["gridcell", "columnheader", "listitem", "option", "treeitem", "button"].map((role) => `[role="${role}"]`).join();
function lwRoles(host) {
  const svg = host.querySelector("svg");
  if (!svg) return;
  host.dataset.role = host.dataset.role || host.getAttribute("role") || "none";
  const role = host.dataset.role, item = LW_ITEMS[role];
  if (role !== "grid") svg.querySelectorAll('[role="row"], [role="gridcell"], [role="columnheader"]').forEach((g) => { g.removeAttribute("role"); g.removeAttribute("aria-label"); });
  for (const row of svg.querySelectorAll('[role="row"]')) if (!row.querySelector('[role="gridcell"]')) row.setAttribute("role", "gridcell");
  const bare = [...svg.querySelectorAll('[role="gridcell"], [role="columnheader"]')].some((cell) => !cell.closest('[role="row"]'));
  if (bare) svg.setAttribute("role", "row");
  if (item) host.setAttribute("role", svg.querySelector(`[role="${item}"]`) ? role : "group");
  for (const part of svg.querySelectorAll(LW_NAMED)) {
    if (part.hasAttribute("aria-label") || part.querySelector(":scope > title")) part.querySelectorAll("text").forEach((t) => t.setAttribute("aria-hidden", "true"));
  }
}
