// All words of the page in both languages, and the switch between them.

const WORDS = {
  en: {
    skip: "Skip to the text",
    title: "Speak in any voice",
    lead: "Type a text, add a few seconds of a voice, listen.",
    languageOfPage: "Language of this page",
    text: "Text",
    textHint: "Readings can be given in brackets: [h][ào] for 好, [M][AY0][N][UW1][T] for minute.",
    examples: "Examples",
    voice: "Voice",
    optional: "optional",
    dropHere: "Drop a recording of 3 to 30 seconds here, or",
    chooseFile: "Choose a file",
    record: "Record",
    stop: "Stop ({seconds} s)",
    level: "Loudness",
    recordHint: "Speak for 5 to 10 seconds, close to the microphone, in a quiet room.",
    recording: "Recording {number}",
    remove: "Remove",
    promptText: "What is said in the recording (optional)",
    manner: "Manner",
    presets: "Presets",
    language: "Language",
    detect: "Detect",
    speed: "Speed",
    seed: "Seed",
    seedHint: "at random",
    dice: "Throw the dice for a seed",
    speak: "Speak",
    cancel: "Cancel",
    working: "Working",
    speaking: "Speaking … {seconds} s",
    cancelled: "Cancelled.",
    done: "Done in {seconds} s.",
    results: "Results",
    none: "Nothing yet. What is spoken appears here.",
    download: "Download",
    copyLink: "Copy link",
    copied: "Copied",
    duration: "Length",
    engine: "Engine",
    rtf: "RTF",
    loading: "The voice is still being loaded ({seconds} s). It will be ready soon.",
    failed: "The voice could not be loaded: {reason}",
    unreachable: "The speech service does not answer. Trying again …",
    check: {
      length: "{seconds} s long",
      loudness: "loudness {db} dB",
      quiet: "quiet: {db} dB",
      silent: "no voice in it",
      clean: "not overdriven",
      clipped: "overdriven: {percent} % cut off",
      rate: "{rate} Hz",
      unknown: "this browser cannot look into it; the service will",
    },
    error: {
      required: "Please type what shall be said.",
      offline: "The service cannot be reached. Is it running?",
      too_large: "That is too large; a recording may have 10 MB.",
      prompt_too_large: "The recording has more than 10 MB.",
      prompt_too_short: "The recording is too short; 3 seconds are needed.",
      prompt_too_long: "The recording is longer than 30 seconds.",
      queue_full: "Too many are waiting just now. Try again in {seconds} seconds.",
      engine_loading: "The voice is still being loaded. Try again in a moment.",
      microphone: "The microphone cannot be used: {reason}",
      insecure: "Browsers allow recording only on https:// or on localhost.",
      seed: "The seed is a whole number from 1 to 100000000.",
    },
  },
  zh: {
    skip: "跳到文本",
    title: "用任何声音说话",
    lead: "输入文字，加上几秒钟的人声，然后聆听。",
    languageOfPage: "页面语言",
    text: "文本",
    textHint: "可用方括号标注读音：[h][ào] 表示“好”读第四声，[M][AY0][N][UW1][T] 表示 minute。",
    examples: "示例",
    voice: "声音样本",
    optional: "可选",
    dropHere: "把 3～30 秒的录音拖到这里，或者",
    chooseFile: "选择文件",
    record: "录音",
    stop: "停止（{seconds} 秒）",
    level: "音量",
    recordHint: "请在安静的环境里靠近麦克风说 5～10 秒。",
    recording: "录音 {number}",
    remove: "移除",
    promptText: "录音里说的话（可选）",
    manner: "语气",
    presets: "预设",
    language: "语言",
    detect: "自动识别",
    speed: "语速",
    seed: "随机种子",
    seedHint: "随机",
    dice: "掷骰子选种子",
    speak: "开始合成",
    cancel: "取消",
    working: "正在合成",
    speaking: "正在合成…… {seconds} 秒",
    cancelled: "已取消。",
    done: "完成，用时 {seconds} 秒。",
    results: "结果",
    none: "还没有结果，合成的声音会出现在这里。",
    download: "下载",
    copyLink: "复制链接",
    copied: "已复制",
    duration: "时长",
    engine: "引擎",
    rtf: "实时率",
    loading: "模型正在加载（{seconds} 秒），很快就好。",
    failed: "模型无法加载：{reason}",
    unreachable: "语音服务没有响应，正在重试……",
    check: {
      length: "时长 {seconds} 秒",
      loudness: "响度 {db} dB",
      quiet: "声音偏小：{db} dB",
      silent: "没有检测到人声",
      clean: "无削波",
      clipped: "削波失真：{percent} %",
      rate: "{rate} Hz",
      unknown: "浏览器无法解码，将由服务检查",
    },
    error: {
      required: "请输入要说的话。",
      offline: "无法连接服务，请确认它正在运行。",
      too_large: "内容太大，录音最多 10 MB。",
      too_long: "内容太长。",
      prompt_too_large: "录音超过 10 MB。",
      prompt_too_short: "录音太短，至少需要 3 秒。",
      prompt_too_long: "录音超过 30 秒，请剪短，5～10 秒最好。",
      prompt_silent: "录音里几乎没有声音。",
      prompt_clipped: "录音削波失真太严重，请小声一点重录。",
      prompt_type: "这不是支持的音频格式（WAV、FLAC、Ogg、MP3、M4A、AAC、WebM）。",
      prompt_damaged: "录音文件已损坏，无法解码。",
      prompt_truncated: "录音文件不完整。",
      prompt_empty: "录音文件是空的。",
      prompt_no_audio: "文件里没有音频。",
      prompt_format: "录音的采样率或声道数不受支持。",
      nothing_to_say: "文本里没有可以朗读的内容。",
      timeout: "合成用时太长，请缩短文本。",
      storage_failed: "声音已合成，但无法保存。",
      internal_error: "服务出错，请查看日志。",
      engine_failed: "引擎出错，请查看日志。",
      engine_stopped: "服务正在停止。",
      queue_full: "排队的人太多，请 {seconds} 秒后再试。",
      engine_loading: "模型仍在加载，请稍后再试。",
      microphone: "无法使用麦克风：{reason}",
      insecure: "浏览器只允许在 https:// 或 localhost 上录音。",
      seed: "种子是 1～100000000 的整数。",
    },
  },
};

export const PRESETS = {
  zh: ["用兴奋的语气说这句话", "悲伤地念出", "快速播报", "慢慢地说", "平静地说", "小声地说", "低沉的声音"],
  en: ["Say it excitedly", "Sadly", "Fast", "Slowly", "Calmly", "In a whisper", "In a deep voice"],
};

export const EXAMPLES = {
  zh: "欢迎使用CosyVoice3声音克隆系统，请说出你想说的话。",
  en: "The quick brown fox jumps over the lazy dog, and nobody minds.",
  pinyin: "她的爱[h][ào]是唱歌和跳舞。",
  arpabet: "Every [M][AY0][N][UW1][T] detail matters to the watchmaker.",
};

let language = "en";
const listeners = [];

/** The words for a dotted key in the language of the page, {name} filled in; "" where there are none. */
export function say(key, values = {}) {
  const found = key.split(".").reduce((table, part) => table?.[part], WORDS[language]);
  return (found ?? "").replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

export const pageLanguage = () => language;

/** Call `listener` whenever the language of the page has changed. */
export const onLanguage = (listener) => listeners.push(listener);

/** Put the words of the present language into `root`. */
export function translate(root = document) {
  for (const element of root.querySelectorAll("[data-words]")) element.textContent = say(element.dataset.words);
  for (const element of root.querySelectorAll("[data-words-label]")) {
    element.setAttribute("aria-label", say(element.dataset.wordsLabel));
  }
  for (const element of root.querySelectorAll("[data-words-placeholder]")) {
    element.placeholder = say(element.dataset.wordsPlaceholder);
  }
}

export function setLanguage(wanted) {
  language = wanted in WORDS ? wanted : "en";
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const button of document.querySelectorAll("[data-page-language]")) {
    button.setAttribute("aria-pressed", String(button.dataset.pageLanguage === language));
  }
  translate();
  for (const listener of listeners) listener();
}

/** Choose the language: what was chosen before, else what the browser prefers. */
export function startLanguage() {
  for (const button of document.querySelectorAll("[data-page-language]")) {
    button.addEventListener("click", () => {
      localStorage.setItem("language", button.dataset.pageLanguage);
      setLanguage(button.dataset.pageLanguage);
    });
  }
  const preferred = navigator.languages.find((name) => /^(zh|en)/i.test(name)) ?? "en";
  setLanguage(localStorage.getItem("language") ?? preferred.slice(0, 2).toLowerCase());
}
