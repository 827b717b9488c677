// The cover's texts: move the training step, bet on which model wrote which, see the answers.
//
// Texts and answers stand in the page (press.site.cover); what may be seen when is in cover.css.
(() => {
const box = document.querySelector(".labkit-voices"), voices = [...box.querySelectorAll("li")];
const step = box.querySelector("input"), steps = JSON.parse(box.dataset.steps);

step.addEventListener("input", () => {
  const said = steps[step.value].toLocaleString("en");
  box.querySelector("output").textContent = said;
  step.setAttribute("aria-valuetext", `step ${said}`);
  for (const one of voices) one.querySelector("span").textContent = JSON.parse(one.dataset.said)[step.value];
});

box.querySelector("button").addEventListener("click", () => {
  const guessed = voices.filter(one => one.querySelector("select").value);
  const right = guessed.filter(one => one.querySelector("select").value === one.dataset.is);
  for (const one of guessed) one.dataset.right = right.includes(one);
  box.querySelector(".score").textContent = guessed.length ? `${right.length} of ${guessed.length} right` : "";
  box.dataset.told = "";
});
})();
