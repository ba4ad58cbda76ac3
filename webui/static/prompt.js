// The prompt: dropped, chosen or recorded; measured and shown at once, so that nobody waits for a refusal.

import { LIMITS, decode, judge, measure, statedRate, wav } from "./sound.js";
import { onLanguage, say } from "./words.js";

const $ = (id) => document.getElementById(id);
const SIGNS = { good: "✓", warn: "!", bad: "✗" };

let prompt = null; // {file, name, checks}
let recordings = 0;
let recorder = null; // {stop} while recording

/** The recording to send, or null. */
export const promptFile = () => prompt?.file ?? null;

/** Whether the present recording would be refused. */
export const promptIsBad = () => prompt?.checks.some((check) => check.level === "bad") ?? false;

export function showPromptError(words) {
  $("prompt-error").textContent = words;
  $("prompt-error").hidden = !words;
}

async function take(file, name) {
  showPromptError("");
  if (file.size > LIMITS.bytes) {
    showPromptError(say("error.prompt_too_large"));
    return;
  }
  let checks;
  try {
    const bytes = await file.arrayBuffer();
    const { samples, rate } = await decode(bytes);
    checks = judge(measure(samples, rate), statedRate(bytes));
  } catch {
    checks = [{ name: "unknown", level: "warn", values: {} }];
  }
  prompt = { file, name, checks };
  const player = $("prompt-player");
  URL.revokeObjectURL(player.src);
  player.src = URL.createObjectURL(file);
  show();
}

function show() {
  $("prompt").hidden = !prompt;
  $("prompt-text-row").hidden = !prompt;
  if (!prompt) return;
  $("prompt-name").textContent = prompt.name;
  $("prompt-checks").replaceChildren(
    ...prompt.checks.map(({ name, level, values }) => {
      const item = document.createElement("li");
      item.className = level;
      item.textContent = `${SIGNS[level]} ${say(`check.${name}`, values)}`;
      return item;
    }),
  );
}

function remove() {
  prompt = null;
  $("file").value = "";
  $("prompt-text").value = "";
  URL.revokeObjectURL($("prompt-player").src);
  $("prompt-player").removeAttribute("src");
  showPromptError("");
  show();
  $("file").focus();
}

function showRecording(seconds) {
  const on = seconds !== null;
  $("record").setAttribute("aria-pressed", String(on));
  $("record-words").textContent = on ? say("stop", { seconds: seconds.toFixed(0) }) : say("record");
  $("level").hidden = !on;
  $("record-hint").hidden = !on;
}

/** Record until stopped or the longest length; show loudness and time meanwhile. */
async function record() {
  if (!navigator.mediaDevices?.getUserMedia) {
    showPromptError(say("error.insecure"));
    return;
  }
  showPromptError("");
  let stream;
  try {
    // The voice as it is: what calls do against echo and noise changes its colour.
    const plain = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
    stream = await navigator.mediaDevices.getUserMedia({ audio: plain });
  } catch (error) {
    showPromptError(say("error.microphone", { reason: error.message || error.name }));
    return;
  }
  const media = new MediaRecorder(stream, { audioBitsPerSecond: 256000 });
  const pieces = [];
  const began = performance.now();
  const stopMeter = startMeter(stream, () => {
    const seconds = (performance.now() - began) / 1000;
    showRecording(seconds);
    if (seconds >= LIMITS.longest - 0.5 && media.state === "recording") media.stop();
  });
  media.addEventListener("dataavailable", (event) => pieces.push(event.data));
  media.addEventListener("stop", async () => {
    stopMeter();
    stream.getTracks().forEach((track) => track.stop());
    recorder = null;
    showRecording(null);
    await keep(new Blob(pieces, { type: media.mimeType }));
  });
  recorder = media;
  media.start();
  showRecording(0);
}

/** Turn what the browser recorded into a WAV, which every service can read. */
async function keep(blob) {
  try {
    const { samples, rate } = await decode(await blob.arrayBuffer());
    recordings += 1;
    const file = new File([wav(samples, rate)], `recording-${recordings}.wav`, { type: "audio/wav" });
    await take(file, say("recording", { number: recordings }));
  } catch (error) {
    showPromptError(say("error.microphone", { reason: error.message || error.name }));
  }
}

function startMeter(stream, tick) {
  // A context of its own, made while the press of the button still counts as a gesture, and closed afterwards.
  const context = new AudioContext();
  const source = context.createMediaStreamSource(stream);
  const analyser = new AnalyserNode(context, { fftSize: 8192 });
  source.connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  const timer = setInterval(() => {
    analyser.getFloatTimeDomainData(samples);
    const power = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length;
    $("level").value = Math.max(-60, 10 * Math.log10(power + 1e-12));
    tick();
  }, 100);
  return () => {
    clearInterval(timer);
    context.close();
  };
}

/** Connect the prompt's part of the page. */
export function startPrompt() {
  const drop = $("drop");
  $("file").addEventListener("change", (event) => {
    const [file] = event.target.files;
    if (file) take(file, file.name);
  });
  $("record").addEventListener("click", () => (recorder ? recorder.stop() : record()));
  $("prompt-remove").addEventListener("click", remove);
  for (const name of ["dragenter", "dragover"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    const [file] = event.dataTransfer.files;
    if (file) take(file, file.name);
  });
  // A file dropped beside the field would otherwise replace the page, and with it all that was typed.
  for (const name of ["dragover", "drop"]) window.addEventListener(name, (event) => event.preventDefault());
  onLanguage(() => {
    show();
    if (!recorder) showRecording(null);
  });
}
