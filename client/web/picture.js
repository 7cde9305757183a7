// The picture that the page is about: dropped, pasted, chosen, photographed, or an example. The
// browser decodes it to show it; the server is sent the file as it is.

import { byId, h, newId, say } from "./dom.js";

export const EXAMPLES = [
  { file: "scene_1.jpg", name: "a scene of shapes" },
  { file: "scene_2.jpg", name: "another scene" },
  { file: "scene_3.jpg", name: "a third scene" },
  { file: "star.jpg", name: "a star" },
  { file: "heart.jpg", name: "a heart" },
  { file: "crescent.jpg", name: "a crescent" },
];
const KINDS = "image/jpeg,image/png,image/webp";

let current = null; // {file, url, name, width, height, example?}
const listeners = new Set();

export const currentPicture = () => current;
export function onPicture(listener) {
  listeners.add(listener);
  if (current) listener(current);
}

async function take(file, name, example) {
  const url = URL.createObjectURL(file);
  const image = new Image();
  image.src = url;
  try {
    await image.decode();
  } catch {
    URL.revokeObjectURL(url);
    complain(`This browser cannot show ${file.name || "the file"}: it takes JPEG, PNG and WebP.`);
    return;
  }
  const old = current;
  // Upright, as the server counts pixels too.
  current = { file, url, name, width: image.naturalWidth, height: image.naturalHeight, example };
  for (const listener of listeners) listener(current);
  if (old) URL.revokeObjectURL(old.url);
  say(`Picture: ${name}, ${current.width} by ${current.height} pixels.`);
}

export async function takeExample(file) {
  const example = EXAMPLES.find((one) => one.file === file);
  if (!example) return;
  const answer = await fetch(new URL(`playground/${file}`, document.baseURI));
  if (!answer.ok) return complain("The example could not be fetched.");
  const blob = await answer.blob();
  await take(new File([blob], file, { type: blob.type }), example.name, file);
}

function complain(text) {
  for (const note of document.querySelectorAll(".picture-note")) note.textContent = text;
  say(text);
}

function takeFirst(files) {
  const file = [...files].find((one) => one.type.startsWith("image/"));
  if (!file) return complain("That is no picture.");
  for (const note of document.querySelectorAll(".picture-note")) note.textContent = "";
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
    h("div", { class: "row" },
      h("button", { type: "button", class: "quiet", onclick: () => input.click() }, "Choose a picture"),
      camera, input, shot),
    examples,
    h("p", { class: "picture-note error-text", role: "alert" }));
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
