// What people are shown. The golden pictures are in data/overlays: run with FOVEA_WRITE_OVERLAYS
// set to a folder to write them anew, and look at them.
#include "server/imaging/drawing/overlay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <new>
#include <opencv2/core.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/class_colour.h"
#include "server/imaging/encode_png.h"
#include "tests/server/imaging/image_files.h"

namespace fovea {
namespace {

RgbImage Ground(int height, int width, int from, int to) {
  RgbImage image = RgbImage::Allocate(height, width);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int level = from + (to - from) * x / std::max(1, width - 1);
      for (int c = 0; c < 3; ++c)
        image.pixels[3 * (y * width + x) + c] = static_cast<uint8_t>(level);
    }
  }
  return image;
}

std::vector<DrawnObject> Objects() {
  return {{20, 30, 150, 180, 0.98f, 0, "circle", {}},
          {100, 90, 300, 200, 0.75f, 1, "rectangle", {}},
          {220, 5, 315, 60, 0.5f, 5, "", {}},
          {310,
           150,
           320,
           160,
           0.31f,
           7,
           "\xc3\xbc"
           "ber\n",
           {}}};
}

// The runs of the ellipse in each box, which may have a hole.
std::vector<DrawnObject> ObjectsWithMasks(int height, int width) {
  std::vector<DrawnObject> objects = Objects();
  for (DrawnObject& object : objects) {
    object.mask = {0};
    for (int x = 0; x < width; ++x) {
      for (int y = 0; y < height; ++y) {
        const float across =
            (2 * x + 1 - object.left - object.right) / (object.right - object.left);
        const float down = (2 * y + 1 - object.top - object.bottom) / (object.bottom - object.top);
        const float radius = across * across + down * down;
        const bool inside = radius < 1 && (object.class_index != 0 || radius > 0.2F);
        if (inside != (object.mask.size() % 2 == 0)) object.mask.push_back(0);
        ++object.mask.back();
      }
    }
  }
  return objects;
}

const uint8_t* At(const RgbImage& image, int y, int x) {
  return &image.pixels[3 * (static_cast<int64_t>(y) * image.width + x)];
}

// Red, green and blue as shares of the light (IEC 61966-2-1).
std::array<double, 3> LinearOf(const Rgb& colour) {
  const auto linear = [](uint8_t level) {
    const double share = level / 255.0;
    return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
  };
  return {linear(colour[0]), linear(colour[1]), linear(colour[2])};
}

// Relative luminance, and the contrast of two colours (WCAG 2.2, section 1.4.11).
double Luminance(const Rgb& colour) {
  const auto [red, green, blue] = LinearOf(colour);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

TEST(Overlay, ColoursAreAClasssOwnAndDiffer) {
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(ClassColour(i), ClassColour(i + 8));
    EXPECT_EQ(ClassColour(i), ClassColour(i - 8));
    EXPECT_EQ(ClassColour(i), ClassColour(i - 8'000'000'000));
    for (int j = 0; j < i; ++j) EXPECT_NE(ClassColour(i), ClassColour(j));
  }
}

// What a dichromat sees (Vienot, Brettel and Mollon, "Digital video colourmaps for checking the
// legibility of displays by dichromats", Color Research and Application 24(4), 1999): their way
// there, to the cones' answers and back, multiplied out. Red and green become one.
struct Vision {
  const char* name;
  double red;   // the share of red in what red and green become
  double blue;  // what blue gains of red's difference from green
};
constexpr Vision kProtanopia{"protanopia", 0.11238, 0.00401};
constexpr Vision kDeuteranopia{"deuteranopia", 0.29275, -0.02234};

std::array<double, 3> Seen(const std::array<double, 3>& rgb, const Vision& vision) {
  const auto [red, green, blue] = rgb;
  const double both = vision.red * red + (1 - vision.red) * green;
  return {both, both, std::clamp(blue + vision.blue * (red - green), 0.0, 1.0)};
}

// L*, a* and b* of linear sRGB, whose white is D65 (CIE 15).
std::array<double, 3> LabOf(const std::array<double, 3>& rgb) {
  const auto [red, green, blue] = rgb;
  const auto f = [](double share) {
    constexpr double kEdge = 6.0 / 29;
    return share > kEdge * kEdge * kEdge ? std::cbrt(share)
                                         : share / (3 * kEdge * kEdge) + 4.0 / 29;
  };
  const double x = f((0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047);
  const double y = f(0.2126729 * red + 0.7151522 * green + 0.0721750 * blue);
  const double z = f((0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

// The least CIE 1976 difference between two of the colours.
double LeastDifference(std::span<const Rgb> colours, const Vision& vision) {
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < colours.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const auto one = LabOf(Seen(LinearOf(colours[i]), vision));
      const auto other = LabOf(Seen(LinearOf(colours[j]), vision));
      least = std::min(least, std::hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]));
    }
  }
  return least;
}

// Ten is more than four times the difference that is just noticed side by side (2.3: Mahy, Van
// Eycken and Oosterlinck, Color Research and Application 19(2), 1994).
TEST(Overlay, ColoursDifferForThoseWhoCannotTellRedFromGreen) {
  std::vector<Rgb> colours;
  for (int i = 0; i < 8; ++i) colours.push_back(ClassColour(i));
  // Eight that most plots have, Tableau's, some of which look alike.
  const Rgb tableau[] = {{31, 119, 180},  {255, 127, 14}, {44, 160, 44},   {214, 39, 40},
                         {148, 103, 189}, {140, 86, 75},  {227, 119, 194}, {127, 127, 127}};
  for (const Vision& vision : {kProtanopia, kDeuteranopia}) {
    EXPECT_GE(LeastDifference(colours, vision), 10) << vision.name;
    EXPECT_LT(LeastDifference(tableau, vision), 10) << vision.name;
  }
}

// Around each line there are a light and a dark one: one of the two differs from any ground.
TEST(Overlay, BoxesAreSeenOnAnyGround) {
  for (const int level : {0, 64, 128, 192, 255}) {
    const RgbImage ground = Ground(480, 640, level, level);
    const DrawnObject object{100, 100, 400, 300, 0.9f, level / 64, "", {}};
    const RgbImage drawn = DrawObjects(ground, {&object, 1});
    double darkest = 1, lightest = 0;
    for (int x = 85; x < 115; ++x) {
      const uint8_t* pixel = At(drawn, 250, x);
      const double luminance = Luminance({pixel[0], pixel[1], pixel[2]});
      darkest = std::min(darkest, luminance);
      lightest = std::max(lightest, luminance);
    }
    const double own = Luminance({uint8_t(level), uint8_t(level), uint8_t(level)});
    const double contrast =
        std::max((lightest + 0.05) / (own + 0.05), (own + 0.05) / (darkest + 0.05));
    EXPECT_GE(contrast, 3) << level;
  }
}

TEST(Overlay, SmallPicturesAreEnlargedAndLargeOnesAreNot) {
  const RgbImage small = DrawObjects(Ground(32, 48, 0, 255), {});
  EXPECT_GE(small.height, 480);
  EXPECT_EQ(small.width % 48, 0);
  const RgbImage large = DrawObjects(Ground(600, 900, 0, 255), {});
  EXPECT_EQ(large.width, 900);
  EXPECT_GT(large.height, 600) << "the legend";
  EXPECT_LT(large.height, 700);
  const RgbImage long_one = DrawObjects(Ground(1, 1000, 0, 255), {});
  EXPECT_EQ(long_one.width, 1000);
}

TEST(Overlay, OutsideOfBoxesAndTagsThePictureIsAsItWas) {
  const RgbImage ground = Ground(600, 800, 0, 255);
  const DrawnObject object{100, 100, 300, 300, 0.9f, 0, "cat", {}};
  const RgbImage drawn = DrawObjects(ground, {&object, 1});
  for (int y = 320; y < 600; ++y) {
    for (int x = 0; x < 800; ++x) ASSERT_EQ(At(drawn, y, x)[0], At(ground, y, x)[0]);
  }
  EXPECT_EQ(At(drawn, 200, 200)[0], At(ground, 200, 200)[0]) << "inside of the box";
}

// How many 5x5 squares of the upper `height` rows are wholly of a class's colour: those in the
// margins of its tags, hardly any in a line.
int64_t SolidPlaces(const RgbImage& image, int height, int class_index) {
  constexpr int kSide = 5;
  const Rgb colour = ClassColour(class_index);
  const auto solid = [&](int y, int x) {
    for (int i = 0; i < kSide * kSide; ++i) {
      const uint8_t* const pixel = At(image, y + i / kSide, x + i % kSide);
      if (!std::equal(colour.begin(), colour.end(), pixel)) return false;
    }
    return true;
  };
  int64_t places = 0;
  for (int y = 0; y + kSide <= height; ++y) {
    for (int x = 0; x + kSide <= image.width; ++x) places += solid(y, x) ? 1 : 0;
  }
  return places;
}

TEST(Overlay, TagsDoNotCoverEachOther) {
  const RgbImage ground = Ground(600, 800, 128, 128);
  // Tags that would all be at one place: in the middle, and in corners of the picture.
  for (const auto& [corner, count] : {std::pair(300.0F, 5), {0.0F, 3}, {700.0F, 3}}) {
    std::vector<DrawnObject> objects;
    for (int i = 0; i < count; ++i) {
      const auto side = static_cast<float>(30 + 30 * i);
      objects.push_back(
          {corner, corner * 3 / 4, corner + side, corner * 3 / 4 + side, 0.9f, i, "cat", {}});
    }
    const RgbImage together = DrawObjects(ground, objects);
    for (const DrawnObject& object : objects) {
      // A quarter may go under lines of better objects.
      const int64_t alone =
          SolidPlaces(DrawObjects(ground, {&object, 1}), ground.height, object.class_index);
      ASSERT_GT(alone, 200);
      EXPECT_GE(SolidPlaces(together, ground.height, object.class_index), alone * 3 / 4)
          << "object " << object.class_index << " at " << corner;
    }
  }
}

TEST(Overlay, TagsOfACrowdDoNotCoverEachOther) {
  const RgbImage ground = Ground(600, 800, 128, 128);
  constexpr int kCrowd = 24;
  std::vector<DrawnObject> objects;
  for (int i = 0; i < kCrowd; ++i) {  // best first, each with a class of its own
    objects.push_back({390, 290, 400, 300, 0.9f, i % 8, "cat", {}});
  }
  std::array<int64_t, 8> alone{};
  for (int i = 0; i < 8; ++i) {
    alone[i] = SolidPlaces(DrawObjects(ground, {&objects[i], 1}), ground.height, i);
    ASSERT_GT(alone[i], 200);
  }
  const RgbImage together = DrawObjects(ground, objects);
  for (int i = 0; i < 8; ++i) {
    EXPECT_GE(SolidPlaces(together, ground.height, i), kCrowd / 8 * alone[i] * 3 / 4)
        << "class " << i;
  }
}

TEST(Overlay, BoxesThatMakeNoSenseAreDrawnSomewhere) {
  for (const DrawnObject& object :
       {DrawnObject{10, 10, 10, 10, 0, 0, "", {}}, DrawnObject{30, 30, 10, 10, 0, 0, "", {}},
        DrawnObject{10, 10, 10, 10, 0, 0, "", {1600}},
        DrawnObject{10, 10, 20, 20, 0.9f, -1, "", {}},
        DrawnObject{-50, -50, 1e6f, 1e6f, 0, 1'000'000, std::string(500, 'x'), {}}}) {
    EXPECT_GT(DrawObjects(Ground(40, 40, 0, 255), {&object, 1}).height, 40);
  }
}

// They are drawn at ints, and neither 1e30 nor NaN is one.
TEST(Overlay, SidesThatAreNoPlaceAreOutsideOfThePicture) {
  const RgbImage ground = Ground(600, 800, 128, 128);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  for (const float far : {1e30f, -1e30f, kInfinite, -kInfinite, kNan}) {
    // Its right side alone is in the picture.
    const float left = std::isnan(far) ? far : -std::abs(far);
    const DrawnObject right{left, left, 300, kInfinite, 0.9f, 0, "", {}};
    const RgbImage drawn = DrawObjects(ground, {&right, 1});
    const uint8_t* const side = At(drawn, 400, 299);
    EXPECT_TRUE(std::equal(side, side + 3, ClassColour(0).begin())) << far;
    EXPECT_EQ(At(drawn, 400, 600)[0], 128) << far;
    // No side is, and the tag goes into a corner.
    const DrawnObject point{far, far, far, far, 0.9f, 0, "", {}};
    EXPECT_EQ(At(DrawObjects(ground, {&point, 1}), 300, 400)[0], 128) << far;
  }
}

TEST(Overlay, MasksColourTheirPixels) {
  const RgbImage ground = Ground(600, 800, 128, 128);
  // 100 columns of 50 pixels, from (200, 300) on.
  DrawnObject object{200, 300, 300, 350, 0.9f, 2, "cat", {200 * 600 + 300}};
  for (int column = 0; column < 100; ++column) {
    object.mask.insert(object.mask.end(), {50, column < 99 ? 550 : 250 + 500 * 600});
  }
  const RgbImage drawn = DrawObjects(ground, {&object, 1});
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(At(drawn, 325, 250)[c], 0.75 * ClassColour(2)[c] + 0.25 * 128, 1);
  }
  EXPECT_EQ(At(drawn, 325, 320)[0], 128);
}

// An outline is dark in the middle of white, here on white: a level between the two, of all
// channels alike, is one that smoothing has made. Without it there is none.
TEST(Overlay, SlantedOutlinesAreSmooth) {
  constexpr int kHeight = 600, kWidth = 800;
  // A triangle whose lower side goes down by a pixel every two columns. The box is elsewhere.
  DrawnObject object{700, 500, 790, 590, 0.9f, 0, "", {100 * kHeight + 100}};
  for (int column = 0; column < 400; ++column) {
    const int pixels = column / 2 + 1;
    object.mask.insert(object.mask.end(), {pixels, kHeight - pixels});
  }
  object.mask.back() += 300 * kHeight - 100;
  const RgbImage drawn = DrawObjects(Ground(kHeight, kWidth, 255, 255), {&object, 1});
  ASSERT_EQ(drawn.width, kWidth);
  int smooth_rows = 0;
  for (int y = 150; y < 250; ++y) {
    const int outline = 100 + 2 * (y - 100);
    bool smooth = false;
    for (int x = outline - 8; x < outline + 8; ++x) {
      const uint8_t* const pixel = At(drawn, y, x);
      const bool grey = pixel[0] == pixel[1] && pixel[1] == pixel[2];
      smooth = smooth || (grey && pixel[0] > 30 && pixel[0] < 245);
    }
    smooth_rows += smooth;
  }
  EXPECT_GT(smooth_rows, 50);
}

TEST(Overlay, MasksOfAnotherPictureAreRefused) {
  for (const std::vector<int64_t>& mask :
       {std::vector<int64_t>{1599}, {0, 1601}, {1601, -1}, {0, 1700, -100}}) {
    const DrawnObject object{0, 0, 40, 40, 0.9f, 2, "cat", mask};
    EXPECT_THROW(DrawObjects(Ground(40, 40, 0, 255), {&object, 1}), std::invalid_argument);
  }
}

// Quarters of a picture, and a stripe.
std::vector<uint16_t> Classes(int height, int width) {
  std::vector<uint16_t> map(static_cast<size_t>(height) * width);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int quarter = 2 * (y >= height / 2) + (x >= width / 2);
      map[static_cast<size_t>(y) * width + x] =
          static_cast<uint16_t>(x % (width / 4) < 2 ? 300 : quarter);
    }
  }
  return map;
}

TEST(Overlay, ClassesColourTheirPixels) {
  const RgbImage ground = Ground(600, 800, 128, 128);
  const RgbImage drawn = DrawClasses(ground, Classes(600, 800), {{0, "sky"}});
  const uint8_t* sky = At(drawn, 100, 100);
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(sky[c], 0.75 * ClassColour(0)[c] + 0.25 * 128, 1);
    EXPECT_LT(At(drawn, 299, 100)[c], 60) << "the border";
  }
  EXPECT_GT(drawn.height, 600) << "the legend";
}

// Whatever the picture shows there: a colour of its own mixes with none of the classes'.
TEST(Overlay, WhatIsPaintedIsNearestToItsColourInTheLegend) {
  const auto distance = [](const uint8_t* pixel, const Rgb& colour) {
    return std::hypot(pixel[0] - colour[0], pixel[1] - colour[1], pixel[2] - colour[2]);
  };
  for (const Rgb& shown : {Rgb{0, 0, 0},
                           {255, 255, 255},
                           {128, 128, 128},
                           {255, 0, 0},
                           {0, 255, 0},
                           {0, 0, 255},
                           {255, 255, 0},
                           {0, 255, 255}}) {
    RgbImage ground = Ground(600, 800, 0, 0);
    for (size_t i = 0; i < ground.size(); ++i) ground.pixels[i] = shown[i % 3];
    for (int own = 0; own < 8; ++own) {
      const std::vector<uint16_t> map(600 * 800, own);
      const DrawnObject object{0, 0, 0, 0, 0, own, "", {0, 600 * 800}};
      for (const RgbImage& drawn :
           {DrawClasses(ground, map, {}), DrawObjects(ground, {&object, 1})}) {
        const uint8_t* const pixel = At(drawn, 400, 400);
        for (int other = 0; other < 8; ++other) {
          EXPECT_LE(distance(pixel, ClassColour(own)), distance(pixel, ClassColour(other)))
              << "class " << own << " looks as " << other;
        }
      }
    }
  }
}

TEST(Overlay, TheBackgroundStaysAsItIs) {
  const RgbImage ground = Ground(600, 800, 0, 255);
  std::vector<uint16_t> map(600 * 800, 0);
  for (int y = 200; y < 400; ++y) std::fill_n(map.begin() + 800 * y + 300, 200, uint16_t{2});
  const RgbImage drawn = DrawClasses(ground, map, {{0, "Background"}, {2, "cat"}});
  for (int y = 0; y < 600; ++y) {
    for (int x = 0; x < 800; ++x) {
      const bool inside = y >= 200 && y < 400 && x >= 300 && x < 500;
      const bool same = std::equal(At(drawn, y, x), At(drawn, y, x) + 3, At(ground, y, x));
      ASSERT_NE(same, inside) << x << ", " << y;
    }
  }
  // A border on each side of it; and a legend that shows the colours that are there.
  for (const auto& [y, x] : {std::pair(200, 400), {399, 400}, {300, 300}, {300, 499}}) {
    EXPECT_LT(At(drawn, y, x)[0], 60) << x << ", " << y;
  }
  const auto in_legend = [&](const Rgb& colour) {
    for (int y = 600; y < drawn.height; ++y) {
      for (int x = 0; x < 800; ++x) {
        if (std::equal(colour.begin(), colour.end(), At(drawn, y, x))) return true;
      }
    }
    return false;
  };
  EXPECT_TRUE(in_legend(ClassColour(2)));
  EXPECT_FALSE(in_legend(ClassColour(0)));
}

TEST(Overlay, ScoresStandBelowThePictureInTheirOrder) {
  const std::vector<DrawnClass> classes = {{3, 0.9F, "star"}, {7, 0.004F, ""}};
  const RgbImage drawn = DrawScores(Ground(600, 800, 128, 128), classes);
  ASSERT_EQ(drawn.width, 800);
  ASSERT_GT(drawn.height, 600);
  EXPECT_EQ(At(drawn, 599, 799)[0], 128);
  // Words, and no colour of a class, which would stand for nothing in the picture.
  bool has_letters = false;
  for (int y = 600; y < drawn.height; ++y) {
    for (int x = 0; x < drawn.width; ++x) {
      const uint8_t* pixel = At(drawn, y, x);
      ASSERT_TRUE(pixel[0] == pixel[1] && pixel[1] == pixel[2]) << x << ", " << y;
      has_letters |= pixel[0] < 64;
    }
  }
  EXPECT_TRUE(has_letters);
}

TEST(Overlay, NoDrawingTakesMoreThanItsBound) {
  for (const auto& [height, width] :
       {std::pair(1, 1), {1, 1000}, {32, 48}, {480, 480}, {600, 900}, {1000, 1}}) {
    for (const int entries : {0, 1, 40}) {
      std::vector<DrawnClass> classes(entries, {3, 0.5F, "something of a long name"});
      const RgbImage drawn = DrawScores(Ground(height, width, 0, 255), classes);
      const auto png = EncodePng(drawn);
      ASSERT_TRUE(png.ok());
      const auto least = static_cast<int64_t>(2 * drawn.size() + png->size());
      EXPECT_LE(least, DrawingBytes(height, width, entries)) << height << "x" << width;
    }
  }
}

// Whether the levels of a pixel lie among those that `picture` has at its place and beside it, give
// or take a rounding.
bool IsShown(const uint8_t* pixel, const RgbImage& picture, int y, int x) {
  constexpr int kRounding = 8;
  const uint8_t* const same = At(picture, y, x);
  const auto differs = [](int a, int b) { return std::abs(a - b) > kRounding; };
  if (std::equal(pixel, pixel + 3, same, std::not_fn(differs))) return true;
  for (int c = 0; c < 3; ++c) {
    int lowest = 255, highest = 0;
    for (int v = std::max(y - 1, 0); v <= std::min(y + 1, picture.height - 1); ++v) {
      for (int u = std::max(x - 1, 0); u <= std::min(x + 1, picture.width - 1); ++u) {
        lowest = std::min<int>(lowest, At(picture, v, u)[c]);
        highest = std::max<int>(highest, At(picture, v, u)[c]);
      }
    }
    if (pixel[c] < lowest - kRounding || pixel[c] > highest + kRounding) return false;
  }
  return true;
}

// Of both pictures, which have one size, the pixels that the other does not show.
int64_t Difference(const RgbImage& one, const RgbImage& other) {
  int64_t pixels = 0;
  for (int y = 0; y < one.height; ++y) {
    for (int x = 0; x < one.width; ++x) {
      pixels += !IsShown(At(one, y, x), other, y, x);
      pixels += !IsShown(At(other, y, x), one, y, x);
    }
  }
  return pixels;
}

// Another OpenCV may blend the edge of a letter or of a slanted line otherwise, and put it a pixel
// aside: hardly a pixel counts then. The smallest box counts 30 pixels where it is drawn a pixel
// aside, and 300 where it is drawn three aside.
::testing::AssertionResult LooksAs(const RgbImage& golden, const RgbImage& drawn) {
  constexpr int64_t kMost = 100;
  if (drawn.height != golden.height || drawn.width != golden.width) {
    return ::testing::AssertionFailure() << "it is " << drawn.width << "x" << drawn.height
                                         << " instead of " << golden.width << "x" << golden.height;
  }
  const int64_t pixels = Difference(golden, drawn);
  if (pixels <= kMost) return ::testing::AssertionSuccess() << pixels << " pixels differ";
  return ::testing::AssertionFailure() << pixels << " pixels differ, " << kMost << " may";
}

RgbImage Golden(const std::string& name) {
  absl::StatusOr<RgbImage> golden =
      testing::Decode(testing::ReadImage("overlays/" + name + ".png"));
  EXPECT_TRUE(golden.ok()) << name << ": " << golden.status();
  return golden.ok() ? *std::move(golden) : RgbImage();
}

void Check(const RgbImage& drawn, const std::string& name, const char* folder) {
  if (folder != nullptr) {
    const absl::StatusOr<std::string> png = EncodePng(drawn);
    ASSERT_TRUE(png.ok());
    std::ofstream(std::filesystem::path(folder) / (name + ".png"), std::ios::binary) << *png;
    return;
  }
  EXPECT_TRUE(LooksAs(Golden(name), drawn)) << name;
}

TEST(Overlay, LooksAsTheGoldenPicturesDo) {
  const char* const folder = std::getenv("FOVEA_WRITE_OVERLAYS");
  for (const auto& [name, from, to] :
       {std::tuple("dark", 0, 60), {"light", 200, 255}, {"both", 0, 255}}) {
    Check(DrawObjects(Ground(200, 320, from, to), Objects()), name, folder);
  }
  Check(DrawObjects(Ground(200, 320, 0, 255), ObjectsWithMasks(200, 320)), "masks", folder);
  Check(DrawClasses(Ground(200, 320, 0, 255), Classes(200, 320),
                    {{0, "sky"}, {1, "grass"}, {2, "a road"}, {300, "pole"}}),
        "classes", folder);
}

// The upper rows of a picture.
RgbImage Rows(const RgbImage& image, int count) {
  RgbImage rows = RgbImage::Allocate(count, image.width);
  std::copy_n(image.pixels.get(), rows.size(), rows.pixels.get());
  return rows;
}

// A copy that is white from a pixel on, to the right and below.
RgbImage Blank(const RgbImage& image, int from_y, int from_x) {
  RgbImage blank = Rows(image, image.height);
  for (int y = from_y; y < blank.height; ++y) {
    uint8_t* const row = &blank.pixels[3 * static_cast<int64_t>(y) * blank.width];
    std::fill(row + 3 * from_x, row + 3 * blank.width, uint8_t{255});
  }
  return blank;
}

constexpr int kLegend = 600;  // the row of the golden pictures from which on it stands

TEST(GoldenPictures, AreNotThoseWithABoxMissingOrThreePixelsAside) {
  for (const auto& [name, from, to] :
       {std::tuple("dark", 0, 60), {"light", 200, 255}, {"both", 0, 255}}) {
    const RgbImage ground = Ground(200, 320, from, to), golden = Golden(name);
    ASSERT_GT(golden.height, kLegend);
    for (size_t i = 0; i < Objects().size(); ++i) {
      std::vector<DrawnObject> objects = Objects();
      objects.erase(objects.begin() + static_cast<std::ptrdiff_t>(i));
      // Whatever the legend says.
      EXPECT_FALSE(LooksAs(Rows(golden, kLegend), Rows(DrawObjects(ground, objects), kLegend)))
          << name << " without object " << i;
      // One pixel of the picture is three of what is drawn.
      for (const auto& [right, down] : {std::pair(-1, 0), {1, 0}, {0, -1}, {0, 1}}) {
        objects = Objects();
        objects[i].left += static_cast<float>(right);
        objects[i].right += static_cast<float>(right);
        objects[i].top += static_cast<float>(down);
        objects[i].bottom += static_cast<float>(down);
        EXPECT_FALSE(LooksAs(golden, DrawObjects(ground, objects)))
            << name << " with object " << i << " moved by " << right << ", " << down;
      }
    }
  }
}

// As OpenCV's own where memory is used up.
class NoMemory : public cv::MatAllocator {
 public:
  NoMemory() { cv::Mat::setDefaultAllocator(this); }
  ~NoMemory() override { cv::Mat::setDefaultAllocator(cv::Mat::getStdAllocator()); }
  cv::UMatData* allocate(int, const int*, int, void*, size_t*, cv::AccessFlag,
                         cv::UMatUsageFlags) const override {
    CV_Error(cv::Error::StsNoMem, "no memory");
  }
  bool allocate(cv::UMatData*, cv::AccessFlag, cv::UMatUsageFlags) const override { return false; }
  void deallocate(cv::UMatData*) const override {}
};

TEST(Overlay, MemoryThatOpenCvDoesNotGetIsTheStandardLibrarysException) {
  const RgbImage ground = Ground(200, 320, 0, 255);
  const std::vector<DrawnObject> objects = ObjectsWithMasks(200, 320);
  const std::vector<uint16_t> map = Classes(200, 320);
  const NoMemory none_left;
  EXPECT_THROW(DrawScores(ground, {}), std::bad_alloc);
  EXPECT_THROW(DrawObjects(ground, objects), std::bad_alloc);
  EXPECT_THROW(DrawClasses(ground, map, {}), std::bad_alloc);
}

TEST(GoldenPictures, AreNotThoseWithoutALegend) {
  for (const char* name : {"dark", "light", "both", "masks", "classes"}) {
    const RgbImage golden = Golden(name);
    ASSERT_GT(golden.height, kLegend);
    EXPECT_FALSE(LooksAs(golden, Rows(golden, kLegend))) << name;
    EXPECT_FALSE(LooksAs(golden, Blank(golden, kLegend, 0))) << name;
    // What stands behind its third entry.
    EXPECT_FALSE(LooksAs(golden, Blank(golden, kLegend, 458))) << name;
    EXPECT_TRUE(LooksAs(golden, golden)) << name;
  }
}

TEST(GoldenPictures, AreNotThoseWithAMaskMissingOrClassesAside) {
  const RgbImage ground = Ground(200, 320, 0, 255);
  for (size_t i = 0; i < Objects().size(); ++i) {
    std::vector<DrawnObject> objects = ObjectsWithMasks(200, 320);
    objects[i].mask.clear();
    EXPECT_FALSE(LooksAs(Golden("masks"), DrawObjects(ground, objects)))
        << "without the mask of object " << i;
  }
  std::vector<uint16_t> map = Classes(200, 320);
  const std::map<int, std::string> labels = {
      {0, "sky"}, {1, "grass"}, {2, "a road"}, {300, "pole"}};
  EXPECT_TRUE(LooksAs(Golden("classes"), DrawClasses(ground, map, labels)));
  EXPECT_FALSE(LooksAs(Golden("classes"), DrawClasses(ground, map, {{0, "sky"}})));
  std::ranges::rotate(map, map.begin() + 1);
  EXPECT_FALSE(LooksAs(Golden("classes"), DrawClasses(ground, map, labels)));
}
}  // namespace
}  // namespace fovea
