// The server, as this page asks it: the same paths, errors and keys that any client has.

// Relative to the page, so that a proxy may serve it below a path of its own.
const BASE = new URL(".", document.baseURI);
const KEY = "fovea.key"; // of the session's storage: it goes with the tab

export class ApiError extends Error {
  constructor(status, { error, code, reason } = {}) {
    super(error || `the server answered ${status}`);
    this.status = status;
    this.code = code || "";
    this.reason = reason || "";
  }
}

let askForKey = async () => null;
let asking = null;

// `ask(why)`: a promise of a key, or of null where none is given.
export function onKeyNeeded(ask) {
  askForKey = ask;
}
export const storedKey = () => sessionStorage.getItem(KEY) || "";
export function storeKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

async function errorOf(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    // Something in front of the server has answered.
  }
  return new ApiError(response.status, body);
}

// The answer, a Response that is ok. Throws ApiError, TypeError where the server cannot be reached,
// or AbortError. Asks for a key where one is needed, once for all that wait.
export async function ask(path, { method = "GET", body, headers = {}, signal } = {}) {
  for (let tries = 0; ; ++tries) {
    const key = storedKey();
    const sent = key ? { ...headers, Authorization: `Bearer ${key}` } : headers;
    const response = await fetch(new URL(path, BASE), {
      method, body, headers: sent, signal, cache: "no-store", credentials: "same-origin",
    });
    if (response.ok) return response;
    const error = await errorOf(response);
    if (response.status !== 401 || tries > 2) throw error;
    if (key === storedKey()) {
      asking ??= askForKey(error.message).finally(() => (asking = null));
      if ((await asking) === null) throw error;
    }
  }
}
export const askJson = async (path, options) => (await ask(path, options)).json();

// JSON objects of an answer that has one on each line, as they come.
export async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      rest += value ?? "";
      const whole = rest.split("\n");
      rest = whole.pop();
      for (const line of whole) if (line.trim()) yield JSON.parse(line);
      if (done) break;
    }
    if (rest.trim()) yield JSON.parse(rest);
  } finally {
    reader.cancel().catch(() => {});
  }
}

// The paths that the server has, by its own description; none where this may not be read.
let described = null;
export function paths() {
  described ??= askJson("openapi.json")
    .then((document) => new Set(Object.keys(document.paths)))
    .catch((error) => {
      described = null;
      if (error.status === 403) return new Set();
      throw error;
    });
  return described;
}

// What went wrong, in a sentence, with what a program would go by.
export function inWords(error) {
  if (error instanceof ApiError) {
    const token = [error.status, error.code, error.reason].filter(Boolean).join(" · ");
    const text = error.message.charAt(0).toUpperCase() + error.message.slice(1);
    return { text: text.replace(/[.]?$/, "."), token };
  }
  if (error instanceof TypeError) {
    return { text: "The server cannot be reached from here.", token: "no connection" };
  }
  return { text: String(error.message || error), token: error.name || "" };
}
export const isAbort = (error) => error?.name === "AbortError";
