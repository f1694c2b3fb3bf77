/* Buttons of the diff open a case in the case view; without one on this page they are taken away. */
"use strict";
(() => {
  for (const button of document.querySelectorAll("#diff button[data-case]")) {
    button.addEventListener("click", () => { window.rigOpenCase(button.dataset.case); });
  }
  window.addEventListener("load", () => {
    if (window.rigOpenCase) return;
    for (const button of document.querySelectorAll("#diff button[data-case]")) button.remove();
  });
})();
