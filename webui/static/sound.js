// Decodes and measures a recording in the browser, by the same limits as the service, and writes WAV.

export const LIMITS = {
  bytes: 10 * 1024 * 1024,
  shortest: 3, // seconds
  longest: 30,
  lowestRate: 16000, // Hz
  sound: -50, // dBFS that count as sound
  soundNeeded: 1, // seconds of it
  quiet: -35, // dBFS
  clippedWarn: 0.001, // share of samples
  clippedBad: 0.03,
};

const FULL_SCALE = 0.999;
const FRAME = 0.02; // seconds

let context; // made on first use: browsers complain of one that no gesture has asked for

/** Decode bytes to mono samples: {samples, rate}; rejects what this browser cannot decode. */
export async function decode(bytes) {
  context ??= new AudioContext();
  const buffer = await context.decodeAudioData(bytes.slice(0));
  const mono = new Float32Array(buffer.length);
  for (let channel = 0; channel < buffer.numberOfChannels; channel++) {
    const data = buffer.getChannelData(channel);
    for (let i = 0; i < data.length; i++) mono[i] += data[i] / buffer.numberOfChannels;
  }
  return { samples: mono, rate: buffer.sampleRate };
}

/** The sample rate a WAV states, or 0: the browser's decoder has already changed it to its own. */
export function statedRate(bytes) {
  const view = new DataView(bytes);
  if (bytes.byteLength < 44 || view.getUint32(0) !== 0x52494646 || view.getUint32(12) !== 0x666d7420) return 0;
  return view.getUint32(24, true);
}

/** Measure mono samples: seconds, loudness in dBFS of what is sound, seconds of sound, share cut off. */
export function measure(samples, rate) {
  const frame = Math.round(rate * FRAME);
  let heard = 0;
  let power = 0;
  for (let start = 0; start + frame <= samples.length; start += frame) {
    let sum = 0;
    for (let i = start; i < start + frame; i++) sum += samples[i] * samples[i];
    const mean = sum / frame;
    if (10 * Math.log10(mean + 1e-12) > LIMITS.sound) {
      heard += 1;
      power += mean;
    }
  }
  let clipped = 0;
  let run = 0;
  for (const sample of samples) {
    run = Math.abs(sample) >= FULL_SCALE ? run + 1 : 0;
    if (run >= 3) clipped += 1;
  }
  return {
    seconds: samples.length / rate,
    sound: heard * FRAME,
    loudness: heard ? 10 * Math.log10(power / heard) : -Infinity,
    clipped: clipped / Math.max(1, samples.length),
  };
}

/** Judge a measurement: a list of {name, level: good | warn | bad, values} for the page to put into words. */
export function judge(measured, rate) {
  const { seconds, sound, loudness, clipped } = measured;
  const lengthBad = seconds < LIMITS.shortest || seconds > LIMITS.longest;
  const found = [{ name: "length", level: lengthBad ? "bad" : "good", values: { seconds: seconds.toFixed(1) } }];
  if (sound < LIMITS.soundNeeded) {
    found.push({ name: "silent", level: "bad", values: {} });
  } else {
    const level = loudness < LIMITS.quiet ? "warn" : "good";
    found.push({ name: level === "warn" ? "quiet" : "loudness", level, values: { db: loudness.toFixed(0) } });
  }
  const share = { percent: (clipped * 100).toFixed(1) };
  if (clipped > LIMITS.clippedBad) found.push({ name: "clipped", level: "bad", values: share });
  else if (clipped > LIMITS.clippedWarn) found.push({ name: "clipped", level: "warn", values: share });
  else found.push({ name: "clean", level: "good", values: {} });
  if (rate) found.push({ name: "rate", level: rate < LIMITS.lowestRate ? "warn" : "good", values: { rate } });
  return found;
}

/** Write mono samples as a 16-bit WAV blob. */
export function wav(samples, rate) {
  const view = new DataView(new ArrayBuffer(44 + samples.length * 2));
  const words = (at, text) => [...text].forEach((sign, i) => view.setUint8(at + i, sign.charCodeAt(0)));
  words(0, "RIFF");
  view.setUint32(4, 36 + samples.length * 2, true);
  words(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  words(36, "data");
  view.setUint32(40, samples.length * 2, true);
  samples.forEach((sample, i) => {
    view.setInt16(44 + i * 2, Math.round(Math.max(-1, Math.min(1, sample)) * 32767), true);
  });
  return new Blob([view], { type: "audio/wav" });
}
