// Lets the keyboard reach, and so scroll, the listings and tables that are wider than the page.
document.addEventListener("DOMContentLoaded", () => {
  const parts = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });
  for (const part of document.querySelectorAll("article pre, article .table-wrapper, .figure-frame")) parts.observe(part);
});
