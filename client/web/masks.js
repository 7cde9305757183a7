// What was found, in pixels: COCO's run lengths, and the colours of classes.

// As base/class_colour.h: Okabe and Ito, "Color universal design", 2008, with grey for black.
export const CLASS_COLOURS = [
  [230, 159, 0], [86, 180, 233], [0, 158, 115], [240, 228, 66],
  [0, 114, 178], [213, 94, 0], [204, 121, 167], [187, 187, 187],
];
export const classColour = (index) => CLASS_COLOURS[((index % 8) + 8) % 8];
// What data sets call the rest of a picture. It is not painted: it would cover what it is the background of.
export const isBackground = (label) => label?.toLowerCase() === "background";
export const css = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;

// Black or white, whichever is read more easily on the colour (WCAG 2, relative luminance).
export function inkOn(colour) {
  const [red, green, blue] = colour.map((level) => {
    const share = level / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) ? "#000" : "#fff";
}

// The lengths that a text of the answer says (cocoapi, maskApi.c, rleFrString): column by column,
// pixels outside and inside of the mask in turn.
export function readRunLengths(text) {
  const runs = [];
  for (let at = 0; at < text.length;) {
    let value = 0;
    let shift = 0;
    let group = 0x20;
    while (group & 0x20) {
      if (at === text.length) throw new Error("run lengths that end within a number");
      group = text.charCodeAt(at++) - 48;
      value |= (group & 0x1f) << shift;
      shift += 5;
    }
    if (group & 0x10 && shift < 32) value |= -1 << shift;
    if (runs.length > 2) value += runs[runs.length - 2];
    runs.push(value);
  }
  return runs;
}

// A canvas's size for pictures of that size: no browser holds those of fifty megapixels lightly.
const MOST_PIXELS = 4e6;
export function canvasSize(width, height) {
  const scale = Math.min(1, Math.sqrt(MOST_PIXELS / (width * height)));
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) };
}

// Paints the mask of a picture of height x width into `image`, which may be smaller.
export function paintMask(image, runs, height, width, [red, green, blue], alpha) {
  const scale_x = image.width / width;
  const scale_y = image.height / height;
  const data = new Uint32Array(image.data.buffer);
  const pixel = (alpha << 24) | (blue << 16) | (green << 8) | red; // little-endian
  let end = 0;
  for (let run = 0; run < runs.length; ++run) {
    const begin = end;
    end += runs[run];
    if (run % 2 === 0) continue;
    for (let at = begin; at < end;) {
      const column = Math.floor(at / height);
      const top = at - column * height;
      const bottom = Math.min(height, end - column * height);
      at = column * height + bottom;
      // The pixels of the canvas whose middles lie in this piece of the column.
      const left_x = Math.ceil(column * scale_x - 0.5);
      const right_x = Math.ceil((column + 1) * scale_x - 0.5);
      const top_y = Math.ceil(top * scale_y - 0.5);
      const bottom_y = Math.ceil(bottom * scale_y - 0.5);
      for (let x = Math.max(0, left_x); x < Math.min(image.width, right_x); ++x) {
        for (let y = Math.max(0, top_y); y < Math.min(image.height, bottom_y); ++y) {
          data[y * image.width + x] = pixel;
        }
      }
    }
  }
}
