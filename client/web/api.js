// The server, as this page asks it: the same paths, errors and keys that any client has.

// Relative to the page, so that a proxy may serve it below a path of its own.
const BASE = new URL(".", document.baseURI);
const KEY = "fovea.key"; // of the session's storage: it goes with the tab

export class ApiError extends Error {
  constructor(status, { error, code, reason } = {}) {
    super(error ? `The server says: ${error}` : `Something between this page and the server has answered ${status}`);
    this.told = error || "";
    this.status = status;
    this.code = code || "";
    this.reason = reason || "";
  }
}

let askForKey = async () => null;
let heardReach = () => {};
let asking = null;

// `ask(why)`: a promise of a key, or of null where none is given.
export function onKeyNeeded(ask) {
  askForKey = ask;
}
// `heard(reached)`: whether the server has answered at all, after each request.
export function onReach(heard) {
  heardReach = heard;
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

// As fetch, but that somebody hears whether there was an answer.
export async function reach(path, options = {}) {
  try {
    const response = await fetch(new URL(path, BASE), { cache: "no-store", credentials: "same-origin", ...options });
    heardReach(true);
    return response;
  } catch (error) {
    if (error instanceof TypeError) heardReach(false);
    throw error;
  }
}

// The answer, a Response that is ok. Throws ApiError, TypeError where the server cannot be reached,
// or AbortError. Asks for a key where one is needed, once for all that wait.
export async function ask(path, { method = "GET", body, headers = {}, signal } = {}) {
  for (let tries = 0; ; ++tries) {
    const key = storedKey();
    const sent = key ? { ...headers, Authorization: `Bearer ${key}` } : headers;
    const response = await reach(path, { method, body, headers: sent, signal });
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
    // As the server wrote it: it may begin with a model's name.
    return { text: error.message.replace(/[.]?$/, "."), token };
  }
  if (error instanceof TypeError) {
    return { text: "The server cannot be reached from here: it has stopped, or the network is down.", token: "no connection" };
  }
  return { text: String(error.message || error), token: error.name || "" };
}
export const isAbort = (error) => error?.name === "AbortError";
export const isTimeout = (error) => error?.name === "TimeoutError";
