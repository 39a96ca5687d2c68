// Wide tables scroll by keyboard, too; Material draws a page again without loading it
document$.subscribe(() => document.querySelectorAll(".md-typeset__scrollwrap").forEach((wrap) => (wrap.tabIndex = 0)));
