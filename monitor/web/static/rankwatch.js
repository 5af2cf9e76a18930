// Pages work without this script. It shows values at the pointer, filters, refreshes, and reads arrow keys.
"use strict";

const hover = document.createElement("div");
hover.id = "hover";
document.body.append(hover);
document.addEventListener("pointermove", (event) => {
  const mark = event.target.closest && event.target.closest("svg a, svg circle, svg rect, svg polygon, svg g");
  const title = mark && mark.querySelector("title");
  hover.textContent = title ? title.textContent : "";
  hover.style.left = `${Math.min(event.clientX + 12, window.innerWidth - 260)}px`;
  hover.style.top = `${event.clientY + 14}px`;
});

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  const link = step && document.querySelector(`nav.steps a[rel=${step}]`);
  if (link) location.assign(link.href);
});

const filter = document.querySelector("input[data-filter]");
function applyFilter() {
  const wanted = filter.value.toLowerCase();
  for (const row of document.querySelectorAll("[data-name]")) row.hidden = !row.dataset.name.toLowerCase().includes(wanted);
}
if (filter) {
  filter.form.hidden = false;
  filter.addEventListener("input", applyFilter);
}

for (const form of document.querySelectorAll("form.choose"))
  form.addEventListener("change", (event) => event.target.matches("select") && form.submit());

async function refresh(part) {
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-live]");
    if (fresh && fresh.innerHTML !== part.innerHTML) {
      part.innerHTML = fresh.innerHTML;
      if (filter) applyFilter();
    }
  } catch { /* the next refresh may succeed */ }
}
const live = document.querySelector("[data-live]");
if (live) setInterval(() => document.hidden || refresh(live), 15000);
