#include "tests/server/imaging/hostile_files.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"

namespace fovea::testing {
namespace {

using Tags = std::vector<TiffTag>;

// A grey picture of 8 bits in one strip, and `more`.
Tags Gray(uint32_t width, uint32_t height, const Tags& more = {}) {
  Tags tags = {Tag(256, width), Tag(257, height), Tag(258, 8),      Tag(262, 1),
               Tag(273, 8),     Tag(277, 1),      Tag(278, height), Tag(279, width * height)};
  tags.insert(tags.end(), more.begin(), more.end());
  return tags;
}

// `count` blocks at byte 8, each of `bytes`.
Tags Blocks(uint32_t offsets, uint32_t counts, uint32_t count, uint32_t bytes) {
  File places, lengths;
  for (uint32_t i = 0; i < count; ++i) {
    places = std::move(places) + Big32(8);
    lengths = std::move(lengths) + Big32(bytes);
  }
  return {{offsets, 4, count, places}, {counts, 4, count, lengths}};
}

File Tiled(uint32_t side, uint32_t tile, uint32_t tiles) {
  Tags tags = {Tag(256, side), Tag(257, side), Tag(258, 8),   Tag(262, 1),
               Tag(277, 1),    Tag(322, tile), Tag(323, tile)};
  const Tags blocks = Blocks(324, 325, tiles, tile * tile);
  tags.insert(tags.end(), blocks.begin(), blocks.end());
  return TiffFile(File(size_t{1} * tile * tile), tags);
}

// Width and bits come twice: libtiff reads the first; the second would lead past the palette of two
// colours.
File TagsTwice() {
  return TiffFile(File(16), {Tag(256, 128),
                             Tag(256, 16),
                             Tag(257, 1),
                             Tag(258, 1),
                             Tag(258, 8),
                             Tag(262, 3),
                             Tag(273, 8),
                             Tag(277, 1),
                             Tag(278, 1),
                             Tag(279, 16),
                             {320, 3, 6, File(12)}});
}

// `tags` unknown tags of eight-byte numbers, which all share the same `bytes`.
File Long8Tags(uint32_t tags, uint32_t bytes) {
  Tags more;
  for (uint32_t i = 0; i < tags; ++i) more.push_back({60'000 + i, 16, bytes / 8, Big32(8)});
  return TiffFile(File(bytes), Gray(16, 16, more));
}

File SharedStrips() {
  constexpr uint32_t kBytes = 1 << 16, kRows = 4096;
  Tags tags = {Tag(256, 16), Tag(257, kRows), Tag(258, 8), Tag(262, 1), Tag(277, 1), Tag(278, 1)};
  const Tags blocks = Blocks(273, 279, kRows, kBytes);
  tags.insert(tags.end(), blocks.begin(), blocks.end());
  return TiffFile(File(kBytes), tags);
}

// CCITT's group 4: a white line, and the end of the block behind the first of 64.
File FaxThatEndsEarly() {
  const File data = Big32(0x80080080);  // 1, 000000000001 000000000001
  return TiffFile(data, {Tag(256, 64), Tag(257, 64), Tag(258, 1), Tag(259, 4), Tag(262, 0),
                         Tag(273, 8), Tag(277, 1), Tag(278, 64), Tag(279, 4)});
}

// A JPEG of 29 x 23 pixels in a strip of `width` x `height`.
File JpegInAStrip(uint32_t width, uint32_t height) {
  const File jpeg = ReadImage("progressive.jpg");
  return TiffFile(
      jpeg, {Tag(256, width), Tag(257, height), Tag(258, 8), Tag(259, 7), Tag(262, 6), Tag(273, 8),
             Tag(277, 3), Tag(278, height), Tag(279, static_cast<uint32_t>(jpeg.size()))});
}

// A progressive JPEG whose last scan comes `count` times more.
File ScansInAStrip(int count) {
  const File jpeg = ReadImage("progressive.jpg");
  const File marker = {std::byte(0xff), std::byte(0xda)};
  const auto last = std::ranges::find_end(jpeg, marker).begin();
  File data;
  data.assign(jpeg.begin(), jpeg.end() - 2);
  for (int i = 0; i < count; ++i) data.insert(data.end(), last, jpeg.end() - 2);
  data.insert(data.end(), jpeg.end() - 2, jpeg.end());
  return TiffFile(data,
                  {Tag(256, 29), Tag(257, 23), Tag(258, 8), Tag(259, 7), Tag(262, 6), Tag(273, 8),
                   Tag(277, 3), Tag(278, 23), Tag(279, static_cast<uint32_t>(data.size()))});
}

// In the file's order the frames lie inside a padding unit, where nothing counts them. The extents
// leave out that unit's header, and so join the frames to the sequence.
File FramesBehindPadding(uint32_t side, int hidden) {
  const File frames = Av1Frames(side, side, hidden);
  const size_t start = 2 + 2 + U8(frames, 3);  // a delimiter and the sequence
  File beginning, rest;
  beginning.assign(frames.begin(), frames.begin() + static_cast<ptrdiff_t>(start));
  rest.assign(frames.begin() + static_cast<ptrdiff_t>(start), frames.end());
  constexpr int kPadding = 15;
  const File padding = Av1Unit(kPadding, rest);
  const auto rest_at = static_cast<uint32_t>(start + padding.size() - rest.size());
  return AvifStill(
      side, side, beginning + padding,
      {{0, static_cast<uint32_t>(start)}, {rest_at, static_cast<uint32_t>(rest.size())}});
}

File Still(uint32_t width, uint32_t height, const File& av1, const File& tables = {}) {
  return AvifStill(width, height, av1, {{0, static_cast<uint32_t>(av1.size())}}, tables);
}

File ManyItems(int count) {
  File references;
  for (int item = 2; item < count + 2; ++item) {
    references = std::move(references) +
                 AvifBox("thmb", Big16(static_cast<uint32_t>(item)) + Big16(1) + Big16(1));
  }
  return Still(64, 64, Av1Frames(64, 64, 0), AvifBox("iref", Big32(0) + references));
}

// Extents of `items` items, as many as may be, that have neither offset nor length in the table.
File ExtentsOfNoWidth(uint32_t items) {
  File locations;
  for (uint32_t item = 1; item <= items; ++item) {
    locations = std::move(locations) + Big16(item) + Big16(0) + Big16(0xffff);
  }
  const File handler = Big32(0) + Big32(0) + FromText("pict") + File(13);
  return AvifBox("ftyp", FromText("avif") + Big32(0) + FromText("avifmif1")) +
         AvifBox("meta", Big32(0) + AvifBox("hdlr", handler) +
                             AvifBox("iloc", Big32(0) + Big16(0) + Big16(items) + locations));
}

// A picture and `bytes` of padding behind it, in two extents.
File TwoExtents(size_t bytes) {
  constexpr int kPadding = 15;
  const File av1 = Av1Frames(64, 64, 0) + Av1Unit(kPadding, File(bytes));
  return AvifStill(64, 64, av1, {{0, 1}, {1, static_cast<uint32_t>(av1.size() - 1)}});
}

// A grid of `side` x `side` cells that are all the same picture of 64 x 64, with `bytes` of padding
// behind it. Cells say that they have `cell_side`, to which libavif scales them, and the grid that
// it has `whole_side`; 0: what the cells make up.
File SharedCells(uint32_t side, size_t bytes, uint32_t cell_side = 64, uint32_t whole_side = 0) {
  constexpr int kPadding = 15;
  const uint32_t cells = side * side;
  if (whole_side == 0) whole_side = side * cell_side;
  const File none = Big32(0), name = File(1);
  const File av1 = Av1Frames(64, 64, 0) + Av1Unit(kPadding, File(bytes));
  const File grid =
      Big16(0) + Big16((side - 1) << 8 | (side - 1)) + Big16(whole_side) + Big16(whole_side);
  const auto located = [](uint32_t item, uint32_t at, size_t length) {
    return Big16(item) + Big16(0) + Big16(1) + Big32(at) + Big32(static_cast<uint32_t>(length));
  };
  const auto size = [&](uint32_t pixels) {
    return AvifBox("ispe", none + Big32(pixels) + Big32(pixels));
  };
  const auto meta = [&](uint32_t data_at) {
    File items, locations = located(1, data_at, grid.size()), references, properties;
    for (uint32_t item = 1; item <= cells + 1; ++item) {
      items = std::move(items) + AvifBox("infe", Big32(2 << 24) + Big16(item) + Big16(0) +
                                                     FromText(item == 1 ? "grid" : "av01") + name);
      if (item == 1) continue;
      locations = std::move(locations) +
                  located(item, data_at + static_cast<uint32_t>(grid.size()), av1.size());
      references = std::move(references) + Big16(item);
      properties =
          std::move(properties) + Big16(item) + File{std::byte(2), std::byte(2), std::byte(0x83)};
    }
    const File handler = none + Big32(0) + FromText("pict") + File(12) + name;
    const File kinds = size(whole_side) + size(cell_side) + AvifBox("av1C", Big32(0x81000c00));
    return AvifBox(
        "meta", none + AvifBox("hdlr", handler) + AvifBox("pitm", none + Big16(1)) +
                    AvifBox("iloc", none + Big16(0x4400) + Big16(cells + 1) + locations) +
                    AvifBox("iinf", none + Big16(cells + 1) + items) +
                    AvifBox("iref", none + AvifBox("dimg", Big16(1) + Big16(cells) + references)) +
                    AvifBox("iprp", AvifBox("ipco", kinds) +
                                        AvifBox("ipma", none + Big32(cells + 1) + Big16(1) +
                                                            File{std::byte(1), std::byte(1)} +
                                                            properties)));
  };
  const File type = AvifBox("ftyp", FromText("avif") + Big32(0) + FromText("avifmif1"));
  const auto data_at = static_cast<uint32_t>(type.size() + meta(0).size() + 8);
  return type + meta(data_at) + AvifBox("mdat", grid + av1);
}

// `count` items that one reference names in two bytes each.
File ReferencedItems(uint32_t count) {
  File named;
  for (uint32_t item = 2; item < count + 2; ++item) named = std::move(named) + Big16(item);
  return Still(64, 64, Av1Frames(64, 64, 0),
               AvifBox("iref", Big32(0) + AvifBox("dimg", Big16(1) + Big16(count) + named)));
}

// A picture whose data's box gives its length in 64 bits, `more` than there are.
File LongLength(uint32_t more) {
  const File av1 = Av1Frames(64, 64, 0);
  const auto bytes = static_cast<uint32_t>(av1.size());
  File file = AvifStill(64, 64, av1, {{8, bytes}});
  const auto box = file.end() - static_cast<ptrdiff_t>(bytes + 8);
  std::ranges::copy(Big32(1), box);
  const File length = Big32(0) + Big32(16 + bytes + more);
  file.insert(box + 8, length.begin(), length.end());
  return file;
}

// Sample entries one inside the other: libavif reads each to the end of its table.
File NestedSampleEntries(int count) {
  File entries;
  const File entry = Big32(13) + FromText("av01") + Big32(13) + File(1);
  for (int i = 1; i < count; ++i) entries = std::move(entries) + entry;
  entries = std::move(entries) + Big32(13) + FromText("av01") + Big32(8) + File(4);
  File box = AvifBox("stsd", Big32(0) + Big32(static_cast<uint32_t>(count)) + entries);
  for (const char* type : {"stbl", "minf", "mdia", "trak", "moov"}) box = AvifBox(type, box);
  return AvifBox("ftyp", FromText("avif") + Big32(0) + FromText("avifmif1")) + box;
}

File Repeated(const File& part, int count) {
  File whole;
  for (int i = 0; i < count; ++i) whole.insert(whole.end(), part.begin(), part.end());
  return whole;
}

File GifOfFrames(int count) {
  const File gif = ReadImage("plain.gif");
  const size_t colours = U8(gif, 10) & 0x80 ? size_t{6} << (U8(gif, 10) & 7) : 0;
  const auto frame = gif.begin() + static_cast<ptrdiff_t>(13 + colours);
  File start, frames;
  start.assign(gif.begin(), frame);
  frames.assign(frame, gif.end() - 1);
  return std::move(start) + Repeated(frames, count) + File{std::byte(0x3b)};
}

}  // namespace

std::vector<HostileFile> HostileFiles() {
  const File past_the_end = TiffFile(File(256), Gray(16, 1000));
  File no_directory = TiffFile(File(1 << 16, std::byte(0xff)), Gray(16, 16));
  const File at = Big32(8);
  std::ranges::copy(at, no_directory.begin() + 4);
  Tags unknown;
  for (uint32_t i = 0; i < 600; ++i) unknown.push_back(Tag(50'000 + i, 1));
  std::vector<HostileFile> files = {
      {"tags twice", TagsTwice(), ""},
      {"numbers of eight bytes within the limit", Long8Tags(7, 1 << 20), ""},
      {"numbers of eight bytes", Long8Tags(40, 1 << 20), "image.metadata_too_large"},
      {"hundreds of tags", TiffFile(File(256), Gray(16, 16, unknown)), "image.metadata_too_large"},
      {"tiles of 4 x 4", Tiled(64, 4, 256), "image.unsupported_type"},
      {"tiles that are one", Tiled(64, 16, 16), ""},
      {"tiles without end", Tiled(8192, 16, 2), "image.corrupt"},
      {"sides without end", Tiled(0xffffffff, 16, 2), "image.too_many_pixels"},
      {"strips that share their bytes", SharedStrips(), "image.corrupt"},
      {"strips past the file", past_the_end, "image.truncated"},
      {"a directory that is none", no_directory, "image.metadata_too_large"},
      {"a strip of as many scans as it needs", ScansInAStrip(0), ""},
      {"a strip of many scans", ScansInAStrip(120), "image.too_many_scans"},
      {"a fax that ends early", FaxThatEndsEarly(), "image.corrupt"},
      {"a JPEG of its strip's size", JpegInAStrip(29, 23), ""},
      {"a JPEG shorter than its strip", JpegInAStrip(29, 99), "image.corrupt"},
      {"a JPEG narrower than its strip", JpegInAStrip(99, 23), "image.corrupt"},
      {"hundreds of frames of a GIF", GifOfFrames(300), ""},
  };
#ifdef FOVEA_AVIF
  const std::vector<HostileFile> avif = {
      {"some hidden frames", Still(64, 64, Av1Frames(64, 64, 3)), ""},
      {"hundreds of hidden frames", Still(64, 64, Av1Frames(64, 64, 300)), "image.corrupt"},
      {"hundreds of shown frames", Still(64, 64, Repeated(Av1Frames(64, 64, 0), 300)), ""},
      {"frames behind padding", FramesBehindPadding(320, 7), "image.corrupt"},
      {"AV1 data of more pixels", Still(64, 64, Av1Frames(256, 256, 0)), "image.corrupt"},
      {"AV1 data of another shape", Still(64, 64, Av1Frames(4096, 1, 0)), "image.corrupt"},
      {"AV1 data past the file", AvifStill(64, 64, Av1Frames(64, 64, 0), {{0, 200}}),
       "image.truncated"},
      {"a length of 64 bits", LongLength(0), ""},
      {"a length of 64 bits past the file", LongLength(1), "image.truncated"},
      {"some items", ManyItems(500), ""},
      {"thousands of items", ManyItems(6000), "image.metadata_too_large"},
      {"thousands of items in two bytes each", ReferencedItems(8000), "image.metadata_too_large",
       5 << 20},
      {"extents without a width", ExtentsOfNoWidth(200), "image.corrupt"},
      {"two extents of 16 MiB", TwoExtents(16 << 20), "", 16 << 20},
      {"cells that share little", SharedCells(8, 1 << 10), ""},
      {"cells that share a megabyte", SharedCells(8, 1 << 14), ""},
      {"cells that share their bytes", SharedCells(8, 1 << 20), "image.corrupt"},
      {"cells that are scaled", SharedCells(8, 1 << 10, 2048, 2048), "image.corrupt"},
      {"sample entries in each other", NestedSampleEntries(2500), "image.metadata_too_large",
       16 << 20},
  };
  files.insert(files.end(), avif.begin(), avif.end());
#endif
  return files;
}

}  // namespace fovea::testing
