// The live list of changes: an event says that there is something new, the rows come from the server as they are shown.
"use strict";

const list = document.querySelector("#changes[data-live]");

async function takeNew() {
  const answer = await fetch(`/changes/new?after=${encodeURIComponent(list.dataset.cursor)}`, { credentials: "same-origin" });
  if (!answer.ok) return;
  const part = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("ol");
  const known = new Set(Array.from(list.children, (row) => row.dataset.id));
  const rows = Array.from(part.children).filter((row) => !known.has(row.dataset.id));
  for (const row of rows.reverse()) {
    row.classList.add("new");
    list.prepend(document.importNode(row, true));
  }
  list.dataset.cursor = part.dataset.cursor;
  while (list.children.length > 200) list.lastElementChild.remove();
  document.querySelector("#none")?.remove();
}

if (list && window.EventSource) {
  let busy = false, more = false;
  const events = new EventSource(`/v1/events?after=${encodeURIComponent(list.dataset.cursor)}`);
  const onNews = async () => {
    more = true;
    while (more && !busy) {
      busy = true;
      more = false;
      try { await takeNew(); } finally { busy = false; }
    }
  };
  events.addEventListener("message", onNews);
  events.addEventListener("change", onNews);
  events.addEventListener("open", () => { document.querySelector("#live").hidden = false; });
}
