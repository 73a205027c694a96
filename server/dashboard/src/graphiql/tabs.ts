/**
 * GraphiQL nests the buttons of a tab inside of the role `tab`, which hides them from screen readers. Its tabs become a
 * list of buttons, the chosen one marked as current, and stay one as tabs come, go and are chosen.
 */
export function listTabs(root: Element): void {
  const chosen = "aria-selected";
  const correct = () => {
    for (const list of root.querySelectorAll(".graphiql-tabs[role]")) list.removeAttribute("role");
    for (const item of root.querySelectorAll(`.graphiql-tab[${chosen}]`)) {
      const button = item.querySelector(".graphiql-tab-button");
      if (item.getAttribute(chosen) === "true") button?.setAttribute("aria-current", "true");
      else button?.removeAttribute("aria-current");
      item.removeAttribute(chosen);
      item.removeAttribute("role");
    }
  };
  new MutationObserver(correct).observe(root, { childList: true, subtree: true, attributeFilter: [chosen] });
}
