// A click on a number leaves only the runs that it comes from in the table at the end.
const runs = [...document.querySelectorAll("tr[data-line]")];
const shown = document.getElementById("shown");
const everything = document.getElementById("all");
const every = document.getElementById("every");

function inside(ranges, number) {
  return (ranges || "").split(",").some((part) => {
    const [first, last = first] = part.split("-").map(Number);
    return first <= number && number <= last;
  });
}

function keep(wanted, text) {
  for (const run of runs) run.hidden = !wanted(run);
  shown.textContent = text;
  everything.hidden = text === "All runs.";
}

for (const cell of document.querySelectorAll("td[data-lines]")) {
  cell.tabIndex = 0;
  const show = () => {
    const lines = JSON.parse(cell.dataset.lines);
    keep((run) => inside(lines[run.dataset.log], Number(run.dataset.line)), cell.title);
    every.open = true;
    shown.scrollIntoView();
  };
  cell.addEventListener("click", show);
  cell.addEventListener("keydown", (event) => event.key === "Enter" && show());
}

everything.addEventListener("click", () => keep(() => true, "All runs."));
