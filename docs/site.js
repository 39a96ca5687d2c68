// Wide tables scroll by keyboard, too, and the menu is one landmark; Material draws a page again without loading it
document$.subscribe(() => {
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((wrap) => (wrap.tabIndex = 0));
  document.querySelectorAll(".md-nav .md-nav").forEach((nav) => nav.setAttribute("role", "group"));
});
