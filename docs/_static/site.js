try { document.body.dataset.theme = localStorage.getItem("theme") || "auto"; } catch { /* from file:// */ }
