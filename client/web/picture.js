// The picture that the page is about: dropped, pasted, chosen, photographed, or an example. The
// browser decodes it to show it; the server is sent the file as it is.

import { inWords, isAbort, reach } from "./api.js";
import { awaiting, byId, h, newId, say } from "./dom.js";

export const EXAMPLES = [
  { file: "star.jpg", name: "a star" },
  { file: "heart.jpg", name: "a heart" },
  { file: "crescent.jpg", name: "a crescent" },
  { file: "scene_1.jpg", name: "a scene of shapes" },
  { file: "scene_2.jpg", name: "another scene" },
  { file: "scene_3.jpg", name: "a third scene" },
];
const KINDS = "image/jpeg,image/png,image/webp,image/gif,image/bmp,image/avif";

let current = null; // {file, url, name, width, height, example?}
const listeners = new Set();

export const currentPicture = () => current;
export function onPicture(listener) {
  listeners.add(listener);
  if (current) listener(current);
}

// EXIF's orientation in a WebP file, and where its chunk's name stands; nothing in any other file.
function webpOrientation(view) {
  const text = (at) => String.fromCharCode(...new Uint8Array(view.buffer, at, 4));
  if (view.byteLength < 30 || text(0) !== "RIFF" || text(8) !== "WEBP") return null;
  for (let at = 12; at + 8 <= view.byteLength; ) {
    const length = view.getUint32(at + 4, true);
    if (text(at) === "EXIF") {
      let tiff = at + 8;
      if (length > 14 && text(tiff) === "Exif") tiff += 6;
      const end = Math.min(at + 8 + length, view.byteLength);
      if (tiff + 10 > end) return null;
      const little = text(tiff).startsWith("II");
      const directory = tiff + view.getUint32(tiff + 4, little);
      for (let i = 0; directory + 14 + 12 * i <= end && i < view.getUint16(directory, little); ++i) {
        const entry = directory + 2 + 12 * i;
        if (view.getUint16(entry, little) !== 0x0112) continue;
        const isLong = [4, 9].includes(view.getUint16(entry + 2, little));
        return { chunk: at, orientation: isLong ? view.getUint32(entry + 8, little) : view.getUint16(entry + 8, little) };
      }
      return null;
    }
    at += 8 + length + (length % 2);
  }
  return null;
}

// Browsers do not agree on turning WebP by EXIF, and the server does: such a file is shown turned here, without its EXIF.
async function shown(file) {
  const bytes = await file.arrayBuffer();
  const found = webpOrientation(new DataView(bytes));
  if (!found || found.orientation < 2 || found.orientation > 8) return file;
  new Uint8Array(bytes).set([0x58, 0x58, 0x58, 0x58], found.chunk); // a name that nobody knows
  const stored = await createImageBitmap(new Blob([bytes], { type: "image/webp" }));
  const { width, height } = stored;
  const canvas = h("canvas");
  [canvas.width, canvas.height] = found.orientation >= 5 ? [height, width] : [width, height];
  const turns = {
    2: [-1, 0, 0, 1, width, 0], 3: [-1, 0, 0, -1, width, height], 4: [1, 0, 0, -1, 0, height], 5: [0, 1, 1, 0, 0, 0],
    6: [0, 1, -1, 0, height, 0], 7: [0, -1, -1, 0, height, width], 8: [0, -1, 1, 0, 0, width],
  };
  const context = canvas.getContext("2d");
  context.setTransform(...turns[found.orientation]);
  context.drawImage(stored, 0, 0);
  return new Promise((resolve) => canvas.toBlob((blob) => resolve(blob ?? file), "image/png"));
}

async function take(file, name, example) {
  let url = "";
  const image = new Image();
  try {
    url = URL.createObjectURL(await shown(file));
    image.src = url;
    await image.decode();
  } catch {
    URL.revokeObjectURL(url);
    complain(`This browser cannot show ${file.name || "the file"}: it takes JPEG, PNG, WebP, GIF, BMP and AVIF.${
      current ? ` The picture is still ${current.name}.` : ""}`);
    return;
  }
  const old = current;
  // Upright, as the server counts pixels too.
  current = { file, url, name, width: image.naturalWidth, height: image.naturalHeight, example };
  for (const listener of listeners) listener(current);
  if (old) URL.revokeObjectURL(old.url);
  say(`Picture: ${name}, ${current.width} by ${current.height} pixels.`);
}

let fetching = null; // an example's AbortController

export async function takeExample(file) {
  const example = EXAMPLES.find((one) => one.file === file);
  if (!example) return;
  complain("");
  fetching?.abort();
  const own = (fetching = new AbortController());
  const ended = [...document.querySelectorAll(".picture-wait")].map((place) =>
    awaiting(place, `Fetching ${example.name}`, () => own.abort()));
  try {
    const answer = await reach(`playground/${file}`, { signal: own.signal });
    if (!answer.ok) return complain(`The server has no example ${file}.`);
    const blob = await answer.blob();
    await take(new File([blob], file, { type: blob.type }), example.name, file);
  } catch (error) {
    if (!isAbort(error)) complain(`The example did not come. ${inWords(error).text}`);
  } finally {
    for (const end of ended) end();
  }
}

// Says what is wrong with the picture where one is chosen; "": nothing is.
export function complain(text) {
  for (const note of document.querySelectorAll(".picture-note")) note.textContent = text;
  if (text) say(text);
}

function takeFirst(files) {
  const file = [...files].find((one) => one.type.startsWith("image/"));
  if (!file) return complain("That is no picture.");
  complain("");
  fetching?.abort();
  take(file, file.name || "a pasted picture");
}

// The camera. A browser gives it to pages over https, and of this machine.
const hasCamera = () => window.isSecureContext && navigator.mediaDevices?.getUserMedia;
const isHandheld = () => window.matchMedia("(pointer: coarse)").matches;

async function photograph() {
  const dialog = byId("camera");
  const video = byId("camera-video");
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch (error) {
    return complain(error.name === "NotAllowedError" ? "The browser was not allowed to use the camera."
      : "No camera was found.");
  }
  video.srcObject = stream;
  await video.play();
  const end = () => stream.getTracks().forEach((track) => track.stop());
  dialog.addEventListener("close", end, { once: true });
  byId("camera-shoot").onclick = () => {
    const canvas = h("canvas");
    canvas.width = video.videoWidth;
    canvas.height = video.videoHeight;
    canvas.getContext("2d").drawImage(video, 0, 0);
    canvas.toBlob((blob) => {
      dialog.close();
      take(new File([blob], "photograph.jpg", { type: blob.type }), "a photograph");
    }, "image/jpeg", 0.92);
  };
  dialog.showModal();
}

// Buttons and examples that choose the picture; a page may have several.
export function pictureChooser() {
  const input = h("input", { type: "file", accept: KINDS, id: newId("file"), class: "visually-hidden", tabindex: "-1",
    "aria-hidden": "true" });
  const shot = h("input", { type: "file", accept: KINDS, capture: "environment", class: "visually-hidden", tabindex: "-1",
    "aria-hidden": "true" });
  for (const one of [input, shot]) {
    one.addEventListener("change", () => {
      if (one.files.length > 0) takeFirst(one.files);
      one.value = "";
    });
  }
  const usable = hasCamera() || isHandheld();
  const camera = h("button", {
    type: "button", class: "quiet", "aria-disabled": usable ? undefined : "true",
    onclick: () => {
      if (hasCamera()) photograph();
      else if (isHandheld()) shot.click(); // the camera's own program hands the file over
      else complain(`Browsers give the camera to pages over https or of this machine; this one came from ${location.origin}.`);
    },
  }, usable ? "Take a photo" : "Camera needs https");
  const examples = h("div", { class: "examples", role: "group", "aria-label": "Example pictures" },
    EXAMPLES.map(({ file, name }) =>
      h("button", { type: "button", class: "example", "data-file": file, "aria-label": `Example: ${name}`, title: name,
        onclick: () => takeExample(file) },
        h("img", { src: `playground/${file}`, alt: "", loading: "lazy" }))));
  onPicture((picture) => {
    for (const button of examples.children) {
      button.setAttribute("aria-pressed", String(button.dataset.file === picture.example));
    }
  });
  return h("div", { class: "chooser" },
    h("p", { class: "picture-note error-text", role: "alert" }),
    h("div", { class: "picture-wait" }),
    h("div", { class: "row" },
      h("button", { type: "button", class: "quiet choose", onclick: () => input.click() }, "Choose a picture"),
      camera, input, shot),
    examples);
}

// Anywhere on the page.
export function listenForPictures() {
  const over = (on) => document.body.classList.toggle("dropping", on);
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    over(true);
  });
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) over(false);
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    over(false);
    if (event.dataTransfer.files.length > 0) takeFirst(event.dataTransfer.files);
  });
  document.addEventListener("paste", (event) => {
    if (event.clipboardData.files.length === 0) return; // text, for a field
    event.preventDefault();
    takeFirst(event.clipboardData.files);
  });
}
