// The page: reads the form, asks the service, and shows what came of it.

import { promptFile, promptIsBad, showPromptError, startPrompt } from "./prompt.js";
import { EXAMPLES, PRESETS, onLanguage, pageLanguage, say, startLanguage, translate } from "./words.js";

const $ = (id) => document.getElementById(id);
const FIELDS = { text: "text", instruct_text: "instruct", seed: "seed", prompt_audio: "prompt" };
const HIGHEST_SEED = 100_000_000;
const KEPT = 8; // results shown
let underWay = null; // AbortController of the request

function showError(id, words) {
  const place = $(`${id}-error`);
  place.textContent = words;
  place.hidden = !words;
  $(id)?.setAttribute("aria-invalid", String(Boolean(words)));
}

function clearErrors() {
  for (const id of ["text", "instruct", "seed"]) showError(id, "");
  showPromptError("");
  $("form-error").hidden = true;
}

/** Show an error of the service where it belongs, in the page's language where the code is known. */
function showServiceError({ code, message, field }, retry) {
  const words = say(`error.${code}`, { seconds: retry || 5 }) || message;
  const id = FIELDS[field];
  if (id === "prompt") {
    showPromptError(words);
    $("prompt-error").scrollIntoView({ block: "center" });
  } else if (id) {
    showError(id, words);
    $(id).focus();
  } else {
    $("form-error").textContent = words;
    $("form-error").hidden = false;
    $("form-error").focus();
  }
}

/** Check what needs no service; returns whether all is well. */
function check() {
  clearErrors();
  if (!$("text").value.trim()) {
    showServiceError({ code: "required", field: "text" });
    return false;
  }
  const seed = $("seed");
  if (!seed.validity.valid) {
    showServiceError({ code: "seed", field: "seed" });
    return false;
  }
  if (promptIsBad()) {
    showPromptError($("prompt-checks").querySelector(".bad").textContent.slice(2));
    $("prompt-remove").focus();
    return false;
  }
  return true;
}

function body() {
  const form = new FormData($("form"));
  for (const [name, value] of [...form]) if (value === "") form.delete(name);
  const file = promptFile();
  if (file) form.set("prompt_audio", file, file.name);
  else form.delete("prompt_text");
  return form;
}

function showProgress(began) {
  const seconds = Math.floor((performance.now() - began) / 1000);
  const words = say("speaking", { seconds });
  if ($("progress").textContent !== words) $("progress").textContent = words;
}

function setWorking(on) {
  $("speak").disabled = on;
  $("cancel").hidden = !on;
  $("bar").hidden = !on;
  $("results").setAttribute("aria-busy", String(on));
}

async function speak(event) {
  event.preventDefault();
  if (underWay || !check()) return;
  underWay = new AbortController();
  const began = performance.now();
  const said = $("text").value.trim();
  const timer = setInterval(() => showProgress(began), 250);
  setWorking(true);
  let ending = "";
  try {
    const answer = await fetch("/infer", { method: "POST", body: body(), signal: underWay.signal });
    const told = await answer.json().catch(() => ({ error: { code: `http_${answer.status}`, message: answer.statusText } }));
    if (answer.ok) {
      showResult(said, told);
      ending = say("done", { seconds: ((performance.now() - began) / 1000).toFixed(1) });
    } else {
      showServiceError(told.error, answer.headers.get("Retry-After"));
    }
  } catch (error) {
    if (error.name === "AbortError") ending = say("cancelled");
    else showServiceError({ code: "offline", message: String(error) });
  } finally {
    clearInterval(timer);
    underWay = null;
    setWorking(false);
    $("progress").textContent = ending;
  }
}

function fact(list, name, value) {
  const pair = document.createElement("div");
  const term = document.createElement("dt");
  const what = document.createElement("dd");
  term.dataset.words = name;
  what.textContent = value;
  pair.append(term, what);
  list.append(pair);
}

function showResult(said, told) {
  const part = $("result").content.cloneNode(true);
  const article = part.querySelector("article");
  const player = part.querySelector("audio");
  part.querySelector(".said").textContent = said;
  player.src = told.url;
  const facts = part.querySelector(".facts");
  fact(facts, "duration", `${told.duration.toFixed(1)} s`);
  fact(facts, "seed", told.seed);
  fact(facts, "engine", told.engine);
  fact(facts, "rtf", told.rtf.toFixed(2));
  const warnings = part.querySelector(".warnings");
  warnings.hidden = told.warnings.length === 0;
  for (const words of told.warnings) {
    const item = document.createElement("li");
    item.textContent = words;
    warnings.append(item);
  }
  const link = part.querySelector(".download");
  link.href = told.url;
  link.download = told.name;
  const copy = part.querySelector(".copy");
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(new URL(told.url, location.href).href);
    copy.textContent = say("copied");
  });
  $("none").hidden = true;
  $("results-heading").after(part);
  translate(article);
  for (const old of [...document.querySelectorAll(".result")].slice(KEPT)) old.remove();
  article.scrollIntoView({ block: "nearest", behavior: "smooth" });
  player.play().catch(() => {}); // a browser may want a press of the play button first
}

function showPresets() {
  $("presets").replaceChildren(
    ...PRESETS[pageLanguage()].map((words) => {
      const chip = document.createElement("button");
      chip.type = "button";
      chip.textContent = words;
      chip.setAttribute("aria-pressed", String($("instruct").value === words));
      chip.addEventListener("click", () => {
        $("instruct").value = $("instruct").value === words ? "" : words;
        markPreset();
      });
      return chip;
    }),
  );
}

function markPreset() {
  for (const chip of $("presets").children) {
    chip.setAttribute("aria-pressed", String(chip.textContent === $("instruct").value));
  }
}

function countText() {
  $("text-count").textContent = `${$("text").value.length} / ${$("text").maxLength}`;
}

/** Ask until the service is ready, and say so above the form meanwhile. */
async function watchState() {
  let words = "";
  try {
    const answer = await fetch("/readyz", { cache: "no-store" });
    const told = await answer.json();
    if (told.state === "failed") words = say("failed", { reason: told.reason ?? "" });
    else if (told.state !== "ready") words = say("loading", { seconds: Math.round(told.seconds ?? 0) });
  } catch {
    words = say("unreachable");
  }
  $("state").textContent = words;
  $("state").hidden = !words;
  if (words) setTimeout(watchState, 2000);
}

startLanguage();
startPrompt();
showPresets();
countText();
watchState();
onLanguage(showPresets);
$("form").addEventListener("submit", speak);
$("cancel").addEventListener("click", () => underWay?.abort());
$("text").addEventListener("input", countText);
$("instruct").addEventListener("input", markPreset);
$("speed").addEventListener("input", () => {
  $("speed-shown").textContent = `${Number($("speed").value).toFixed(1)}×`;
});
$("dice").addEventListener("click", () => {
  $("seed").value = 1 + Math.floor(Math.random() * HIGHEST_SEED);
});
for (const chip of document.querySelectorAll("[data-example]")) {
  chip.addEventListener("click", () => {
    $("text").value = EXAMPLES[chip.dataset.example];
    countText();
    $("text").focus();
  });
}
// Ctrl+Enter (or Cmd+Enter) speaks from inside the text.
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit();
});
