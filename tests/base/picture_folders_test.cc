#include "base/picture_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

namespace fovea {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class PictureFoldersTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  void Write(const std::string& name) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << "x";
  }
  std::vector<std::string> Names(const std::vector<fs::path>& paths) const {
    std::vector<std::string> names;
    for (const fs::path& path : paths) names.push_back(path.lexically_relative(folder_));
    return names;
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(PictureFoldersTest, FilesAreSortedAndWhatIsHiddenIsLeftOut) {
  for (const char* name : {"b.JPG", "a/2.webp", "a/1.png", "a/notes.txt", ".c.png", ".d/1.png"}) {
    Write(name);
  }
  EXPECT_THAT(Names(*FilesBelow(folder_, IsPicture)), ElementsAre("a/1.png", "a/2.webp", "b.JPG"));
  EXPECT_THAT(Names(*FilesIn(folder_, IsPicture)), ElementsAre("b.JPG"));
  EXPECT_THAT(Names(*FoldersIn(folder_)), ElementsAre("a"));
  const absl::Status missing = FilesBelow(folder_ / "none", IsPicture).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("there is no folder "));
}

TEST_F(PictureFoldersTest, PicturesHaveTheClassOfTheirFolder) {
  for (const char* name : {"cat/1.png", "cat/more/2.png", "ant/3.png"}) Write(name);
  const auto pictures = PicturesOfClasses(folder_, {"cat", "dog", "ant"});
  ASSERT_TRUE(pictures.ok()) << pictures.status();
  ASSERT_EQ(pictures->size(), 3);
  EXPECT_EQ((*pictures)[0].name, "ant/3.png");
  EXPECT_EQ((*pictures)[0].class_index, 2);
  EXPECT_EQ((*pictures)[2].name, "cat/more/2.png");
  EXPECT_EQ((*pictures)[2].class_index, 0);
  EXPECT_EQ((*pictures)[2].file, folder_ / "cat/more/2.png");
}

TEST_F(PictureFoldersTest, Row114FilesThatHoldNoPictureAreCounted) {
  for (const char* name :
       {"cat/1.JFIF", "cat/2.tif", "cat/a.heic", "cat/more/b.heic", "cat/c.txt"}) {
    Write(name);
  }
  std::ofstream(folder_ / "cat/3") << "GIF89a";
  FilesLeftOut left_out;
  EXPECT_EQ(left_out.Line(), "");
  EXPECT_EQ(PicturesOfClasses(folder_, {"cat"}, &left_out)->size(), 3);
  EXPECT_EQ(left_out.Line(), "3 files left out: .heic 2, .txt 1");
}

TEST_F(PictureFoldersTest, WhatIsNoFolderOfAClassIsRefusedInWords) {
  Write("1.png");
  EXPECT_EQ(PicturesOfClasses(folder_, {"cat"}).status().code(), absl::StatusCode::kNotFound);
  Write("c\nw/1.png");
  EXPECT_THAT(std::string(PicturesOfClasses(folder_, {"cat"}).status().message()),
              HasSubstr("there is no class 'c\\nw'"));
  fs::remove_all(folder_ / "c\nw");
  Write("cat/notes.txt");
  const absl::Status empty = PicturesOfClasses(folder_, {"cat"}).status();
  EXPECT_EQ(empty.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(empty.message()), HasSubstr("there is no picture in "));
}

}  // namespace
}  // namespace fovea
