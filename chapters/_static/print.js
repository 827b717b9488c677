// Lays the pages of the site out as one document for the printer; chapters/press/site/pdf.py calls it.
// pages: [{name, label, chapter}] in order; each becomes a <section class="page">.

const SITE = "../site/";
const MOST_FRAMES = 6;
const ENDS = ["Elsewhere in this book", "References"]; // of every chapter: not worth a line

async function assemble(pages) {
  const names = new Map(pages.map(page => [page.name, page]));
  const styles = new Set();
  const rules = [];
  for (const [number, page] of pages.entries()) {
    const answer = await fetch(`${SITE}${page.name}.html`);
    if (!answer.ok) throw new Error(`no page ${page.name}: ${answer.status}`);
    const source = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const link of source.querySelectorAll('link[rel="stylesheet"][href*="_static"]'))
      styles.add(SITE + link.getAttribute("href"));
    const article = source.querySelector("article.bd-article");
    strip(article);
    redirect(article, page.name, names);
    frames(article);
    article.querySelectorAll("details").forEach(fold => { fold.open = true; });
    const section = document.createElement("section");
    section.className = `page ${page.chapter ? "chapter" : ""}`;
    section.id = page.name;
    section.style.page = `p${number}`;
    section.append(document.importNode(article, true));
    document.getElementById("book").append(section);
    page.title = page.label || section.querySelector("h1").textContent.trim();
    rules.push(`@page p${number} { @top-right { content: ${JSON.stringify(page.title)} } }`);
  }
  await Promise.all([...styles].map(stylesheet));
  const running = document.createElement("style");
  running.textContent = rules.join("\n");
  document.head.append(running);
  contents(pages);
  await document.fonts.ready;
  await Promise.all([...document.images].map(image => image.decode().catch(() => {})));
  return {
    sections: document.querySelectorAll("section.page").length,
    broken: [...document.images].filter(i => !i.naturalWidth).map(i => i.getAttribute("src")),
  };
}

// What only a screen can use.
function strip(article) {
  const screen = "script, .headerlink, .toctree-wrapper, .copybtn, form, .labkit-slider p, "
    + ".labkit-narrow, .labkit-foot > a, .labkit-voices > .step, "
    + ".labkit-voices :is(label, button)";
  article.querySelectorAll(screen).forEach(element => element.remove());
  article.querySelectorAll("a.reference.download").forEach(link => link.closest("p")?.childNodes
    .forEach(node => { if (node === link || node.contains?.(link)) node.remove(); }));
}

// Every id gets its page before it, but a drawing's, which the drawing itself refers to; a link to a page of the book stays inside the document.
function redirect(article, here, names) {
  article.querySelectorAll("[id]:not(svg [id])").forEach(e => { e.id = `${here}--${e.id}`; });
  for (const link of article.querySelectorAll("a[href]")) {
    const [path, anchor] = link.getAttribute("href").split("#");
    if (/^[a-z]+:/.test(path)) continue;
    const name = path ? path.replace(/^\.\//, "").replace(/\.html$/, "") : here;
    if (names.has(name)) link.setAttribute("href", anchor ? `#${name}--${anchor}` : `#${name}`);
    else link.replaceWith(...link.childNodes);
  }
}

// A slider becomes a sheet of its pictures, evenly chosen where they are many.
function frames(article) {
  for (const slider of article.querySelectorAll(".labkit-slider")) {
    const all = [...slider.querySelectorAll(".labkit-frame")];
    const most = Math.min(all.length, MOST_FRAMES);
    const step = most > 1 ? (all.length - 1) / (most - 1) : 0;
    const chosen = new Set(Array.from({length: most}, (_, i) => all[Math.round(i * step)]));
    const sheet = article.ownerDocument.createElement("div");
    sheet.className = "print-frames";
    for (const frame of chosen) {
      frame.hidden = false;
      const figure = article.ownerDocument.createElement("figure");
      const label = article.ownerDocument.createElement("figcaption");
      label.textContent = frame.dataset.label;
      figure.append(frame, label);
      sheet.append(figure);
    }
    slider.replaceChildren(sheet);
  }
}

function stylesheet(href) {
  return new Promise((done, failed) => {
    const link = document.createElement("link");
    Object.assign(link, {rel: "stylesheet", href, onload: done, onerror: failed});
    document.head.insertBefore(link, document.getElementById("print-style"));
  });
}

// The table of contents: pages, and of chapters the sections. Numbers come in with number().
function contents(pages) {
  const list = document.getElementById("contents");
  const row = (level, id, text) => {
    const link = document.createElement("a");
    link.className = `toc-row toc-${level}`;
    link.href = `#${id}`;
    link.dataset.target = id;
    for (const [name, said] of [["toc-text", text], ["toc-dots", ""], ["toc-number", ""]]) {
      const span = document.createElement("span");
      span.className = name;
      span.textContent = said;
      link.append(span);
    }
    list.append(link);
  };
  for (const page of pages) {
    row(1, page.name, page.title);
    if (!page.chapter) continue;
    for (const heading of document.querySelectorAll(`[id="${page.name}"] h2`)) {
      if (ENDS.includes(heading.textContent.trim())) continue;
      const section = heading.closest("section[id]") ?? heading;
      row(2, section.id, heading.textContent.trim());
    }
  }
}

function number(pageOf) {
  for (const row of document.querySelectorAll("#contents .toc-row"))
    row.querySelector(".toc-number").textContent = pageOf[row.dataset.target] ?? "";
}
