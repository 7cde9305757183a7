#include "model_zoo/folder/model_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "model_zoo/folder/describe_model_folder.h"
#include "model_zoo/folder/file_error.h"
#include "model_zoo/folder/labels.h"
#include "model_zoo/folder/names.h"
#include "tests/model_zoo/folder/temp_repository.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

std::vector<std::unique_ptr<RepositoryFs>> Repository(const TempRepository& disk,
                                                      bool use_openat2 = true) {
  std::vector<std::unique_ptr<RepositoryFs>> repositories;
  repositories.push_back(MakeRepositoryFs(disk.root(), use_openat2));
  return repositories;
}

// docs/faults.md, row 25.
TEST(NamesTest, OnlyPlainNamesAreNames) {
  for (const char* good : {"a", "deit_tiny.v2", "A-1", "..a", "1", "-"}) {
    EXPECT_TRUE(IsModelName(good)) << good;
  }
  EXPECT_TRUE(IsModelName(std::string(128, 'x')));
  const std::vector<std::string> bad = {"",
                                        ".",
                                        "..",
                                        "../x",
                                        "/etc",
                                        "a/b",
                                        "%2e%2e",
                                        std::string("a\0b", 3),
                                        "a b",
                                        " a",
                                        "a\n",
                                        std::string(129, 'x'),
                                        std::string(10'000, 'x'),
                                        "d\u0435it",
                                        "\xff"};
  for (const std::string& name : bad) {
    EXPECT_FALSE(IsModelName(name)) << name;
    EXPECT_EQ(CheckModelName(name).code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

TEST(NamesTest, OnlyPositiveDecimalsAreVersions) {
  EXPECT_EQ(ParseVersion("1"), 1);
  EXPECT_EQ(ParseVersion("9223372036854775807"), INT64_MAX);
  for (const char* bad : {"", "0", "-1", "+1", "0001", "1 ", " 1", "1.0", "1e3", "0x1", "latest",
                          "9223372036854775808", "18446744073709551616"}) {
    EXPECT_EQ(ParseVersion(bad), std::nullopt) << bad;
  }
  EXPECT_TRUE(CheckVersion("").ok());
  EXPECT_EQ(CheckVersion("0001").code(), absl::StatusCode::kInvalidArgument);
}

TEST(NamesTest, ALabelBeginsWithALetter) {
  for (const char* good : {"stable", "canary-2", "V1.0_b"}) {
    EXPECT_TRUE(IsVersionLabel(good)) << good;
    EXPECT_TRUE(CheckVersion(good).ok()) << good;
  }
  for (const char* bad : {"", "1", "1a", "-a", ".a", "a b", "a/b"}) {
    EXPECT_FALSE(IsVersionLabel(bad)) << bad;
  }
}

TEST(LabelsTest, OneLineOneLabel) {
  EXPECT_THAT(*ParseLabels("cat\ndog\r\nöl, Fass"), ElementsAre("cat", "dog", "öl, Fass"));
  EXPECT_THAT(*ParseLabels("cat\n"), ElementsAre("cat"));
  EXPECT_THAT(*ParseLabels(""), IsEmpty());
}

TEST(LabelsTest, BadLinesAreNamed) {
  struct Case {
    std::string text;
    const char* says;
  };
  std::string many;
  for (int i = 0; i < 2 * limits::kMaxClasses; ++i) many += "a\n";
  for (const Case& bad :
       {Case{"a\n\nb", "labels.txt:2: empty"}, Case{"a\nb\xc3\x28", "labels.txt:2: not UTF-8"},
        Case{"\xed\xa0\x80", "labels.txt:1: not UTF-8"},
        Case{"a\x1b[31m", "labels.txt:1: a control character"},
        Case{std::string(1025, 'a'), "labels.txt:1: longer"},
        Case{many, "labels.txt:1000001: more lines"}}) {
    const auto labels = ParseLabels(bad.text);
    EXPECT_EQ(labels.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(labels.status().message()), HasSubstr(bad.says));
  }
}

TEST(LabelsTest, WhatIsWrittenIsReadAsItWas) {
  const std::vector<std::string> labels = {"one thing", "\u00e9t\u00e9"};
  const absl::StatusOr<std::string> text = LabelsText(labels);
  EXPECT_EQ(*text, "one thing\n\u00e9t\u00e9\n");
  EXPECT_EQ(*ParseLabels(*text), labels);
  EXPECT_EQ(*LabelsText({}), "");
  const std::vector<std::string> large(limits::kMaxLabelsBytes / 1024 + 1, std::string(1023, 'a'));
  for (const std::vector<std::string>& bad :
       {std::vector<std::string>{"a\nb"}, std::vector<std::string>{"a\r"},
        std::vector<std::string>{"a", ""}, large}) {
    EXPECT_EQ(LabelsText(bad).status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

// Both ways of staying inside, with and without openat2.
class ModelFoldersTest : public ::testing::TestWithParam<bool> {
 protected:
  ModelFolderContents Read(std::string_view name) const { return folders_.Read(name); }

  TempRepository disk_;
  const ModelFolders folders_ = ModelFolders(Repository(disk_, GetParam()));
};

INSTANTIATE_TEST_SUITE_P(Openat2, ModelFoldersTest, ::testing::Bool());

std::string Says(const absl::Status& status) { return std::string(status.message()); }

// Also row 91: variants.
TEST_P(ModelFoldersTest, ListsWhatCanBeAModel) {
  disk_.AddModel("b");
  disk_.AddModel("a");
  disk_.AddModel("variant.b");  // experiments' names
  disk_.Write("not a model/x", "");
  disk_.Write(".git/config", "");
  disk_.Write("README.md", "");
  const ModelFolders::Listing listing = folders_.List();
  EXPECT_THAT(listing.names, ElementsAre("a", "b"));
  EXPECT_THAT(listing.ignored, UnorderedElementsAre("not a model", "variant.b"));
  EXPECT_TRUE(listing.problem.ok());
  EXPECT_TRUE(absl::IsNotFound(folders_.Read("variant.b").status));
}

TEST_P(ModelFoldersTest, ReadsSpecLabelsAndVersions) {
  disk_.AddModel("cats", "num_classes: 2", 10);
  disk_.AddVersion("cats", 9);
  disk_.Write("cats/labels.txt", "tom\nkitty\n");
  disk_.Write("cats/0003/model.safetensors", "");
  disk_.Write("cats/docs/readme.txt", "");
  const ModelFolderContents cats = Read("cats");
  ASSERT_TRUE(cats.status.ok()) << cats.status;
  EXPECT_THAT(cats.labels, ElementsAre("tom", "kitty"));
  ASSERT_THAT(cats.versions, SizeIs(2));
  EXPECT_EQ(cats.versions[0].number, 9);
  EXPECT_EQ(cats.versions[1].number, 10);
  ASSERT_TRUE(cats.versions[1].weights.has_value());
  const auto file = OpenWeights(*cats.versions[1].weights);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(std::filesystem::canonical((*file)->path()),
            std::filesystem::canonical(disk_ / "cats/10/model.safetensors"));
}

TEST_P(ModelFoldersTest, ThePathOfOpenedWeightsSurvivesTheirReplacement) {
  disk_.AddModel("cats");
  const ModelFolderContents cats = Read("cats");
  const auto file = OpenWeights(*cats.versions.at(0).weights);
  ASSERT_TRUE(file.ok()) << file.status();
  disk_.Write("cats/1/model.safetensors", "something else");
  EXPECT_EQ(std::filesystem::file_size((*file)->path()), EmptySafetensors().size());
}

TEST_P(ModelFoldersTest, LabelsMustMatchTheClasses) {
  disk_.AddModel("cats", "num_classes: 3");
  disk_.Write("cats/labels.txt", "tom\nkitty\n");
  const ModelFolderContents cats = Read("cats");
  EXPECT_EQ(cats.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Says(cats.status), HasSubstr("labels.txt has 2 lines, and the model has 3 classes"));
}

TEST_P(ModelFoldersTest, AnUnknownModelIsNotFound) {
  EXPECT_EQ(Read("cats").status.code(), absl::StatusCode::kNotFound);
}

TEST_P(ModelFoldersTest, AFolderWithoutASpecSaysSo) {
  disk_.Write("cats/1/model.safetensors", EmptySafetensors());
  EXPECT_EQ(Read("cats").status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Says(Read("cats").status), HasSubstr("no model.textproto"));
}

TEST(ModelFoldersOfTwoRepositoriesTest, OneNameInBothIsRefused) {
  TempRepository first, second;
  first.AddModel("cats");
  first.AddModel("dogs");
  second.AddModel("cats");
  std::vector<std::unique_ptr<RepositoryFs>> repositories;
  repositories.push_back(MakeRepositoryFs(first.root()));
  repositories.push_back(MakeRepositoryFs(second.root()));
  const ModelFolders folders(std::move(repositories));
  EXPECT_THAT(folders.List().names, ElementsAre("cats", "dogs"));
  EXPECT_EQ(folders.Read("cats").status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(folders.Read("dogs").status.ok());
}

TEST_P(ModelFoldersTest, WeightsOfUsesTheOtherModelsFileAndVersions) {
  disk_.AddModel("dense", "", 3);
  disk_.Write("knn/model.textproto", kPlainSpec + std::string("weights_of: \"dense\""));
  disk_.Write("knn2/model.textproto", kPlainSpec + std::string("weights_of: \"knn\""));
  for (const char* name : {"knn", "knn2"}) {
    const ModelFolderContents model = Read(name);
    ASSERT_TRUE(model.status.ok()) << model.status;
    ASSERT_THAT(model.versions, SizeIs(1));
    EXPECT_EQ(model.versions[0].number, 3);
    ASSERT_TRUE(model.versions[0].weights.has_value());
    EXPECT_EQ(model.versions[0].weights->path, "dense/3/model.safetensors");
  }
}

TEST_P(ModelFoldersTest, WeightsOfChangesWithItsSource) {
  disk_.AddModel("dense");
  disk_.Write("knn/model.textproto", kPlainSpec + std::string("weights_of: \"dense\""));
  const std::string before = Read("knn").fingerprint;
  EXPECT_EQ(Read("knn").fingerprint, before);
  disk_.AddVersion("dense", 1);
  EXPECT_NE(Read("knn").fingerprint, before);
}

TEST_P(ModelFoldersTest, WeightsOfInACircleIsRefused) {
  disk_.Write("a/model.textproto", kPlainSpec + std::string("weights_of: \"b\""));
  disk_.Write("b/model.textproto", kPlainSpec + std::string("weights_of: \"c\""));
  disk_.Write("c/model.textproto", kPlainSpec + std::string("weights_of: \"b\""));
  disk_.Write("own/model.textproto", kPlainSpec + std::string("weights_of: \"own\""));
  EXPECT_EQ(Read("a").status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Says(Read("a").status), HasSubstr("a -> b -> c -> b"));
  EXPECT_THAT(Says(Read("own").status), HasSubstr("own -> own"));
}

TEST_P(ModelFoldersTest, WeightsOfNothingIsRefused) {
  disk_.Write("knn/model.textproto", kPlainSpec + std::string("weights_of: \"dense\""));
  EXPECT_THAT(Says(Read("knn").status), HasSubstr("no model dense"));
  disk_.AddModel("dense", "random_weights { seed: 1 }");
  EXPECT_THAT(Says(Read("knn").status), HasSubstr("random weights"));
  disk_.AddModel("dense", "max_batch_size: -1");
  EXPECT_THAT(Says(Read("knn").status), HasSubstr("weights_of: model dense: model.textproto:3: "));
  disk_.AddModel("dense", "", 1);
  disk_.Write("knn/2/.keep", "");
  const ModelFolderContents knn = Read("knn");
  ASSERT_TRUE(knn.status.ok()) << knn.status;
  EXPECT_THAT(Says(knn.versions.at(0).status), HasSubstr("model dense has no version 2"));
}

TEST_P(ModelFoldersTest, RandomWeightsNeedNoVersionFolder) {
  disk_.Write("cats/model.textproto", kPlainSpec + std::string("random_weights { seed: 1 }"));
  const ModelFolderContents cats = Read("cats");
  ASSERT_TRUE(cats.status.ok()) << cats.status;
  ASSERT_THAT(cats.versions, SizeIs(1));
  EXPECT_EQ(cats.versions[0].number, 1);
  EXPECT_FALSE(cats.versions[0].weights.has_value());
}

TEST_P(ModelFoldersTest, OneVersionWithoutWeightsDoesNotSpoilTheOthers) {
  disk_.AddModel("cats", "", 1);
  disk_.Write("cats/2/.keep", "");
  const ModelFolderContents cats = Read("cats");
  ASSERT_TRUE(cats.status.ok()) << cats.status;
  EXPECT_TRUE(cats.versions.at(0).status.ok());
  EXPECT_THAT(Says(cats.versions.at(1).status),
              ::testing::StrEq("2/model.safetensors does not exist"));
}

TEST_P(ModelFoldersTest, TheFingerprintFollowsEveryFile) {
  disk_.AddModel("cats");
  disk_.Write("cats/labels.txt", "tom\n");
  std::string last = Read("cats").fingerprint;
  const auto changed = [&] {
    const std::string now = Read("cats").fingerprint;
    return now != std::exchange(last, now);
  };
  EXPECT_FALSE(changed());
  disk_.Write("cats/labels.txt", "pal\n");
  EXPECT_TRUE(changed());
  disk_.Append("cats/1/model.safetensors", " ");
  EXPECT_TRUE(changed());
  disk_.AddVersion("cats", 2);
  EXPECT_TRUE(changed());
  disk_.Write("cats/model.textproto", kPlainSpec);
  EXPECT_TRUE(changed());
  disk_.Remove("cats/labels.txt");
  EXPECT_TRUE(changed());
  disk_.Write("cats/model.textproto", "broken");
  EXPECT_TRUE(changed());
  EXPECT_FALSE(changed());
}

TEST_P(ModelFoldersTest, EveryProblemOfAFolderIsToldAndItsVersionsAreRead) {
  disk_.AddModel("cats", "max_batch_size: 0\nno_such_field: 1");
  disk_.Write("cats/labels.txt", "\n\n");
  const ModelFolderContents cats = Read("cats");
  std::vector<std::string> said;
  for (const absl::Status& problem : cats.problems) said.push_back(Says(problem));
  EXPECT_THAT(said, ElementsAre("model.textproto:4: unknown field \"no_such_field\"",
                                HasSubstr("model.textproto:3: max_batch_size is 0"),
                                "labels.txt:1: empty", "labels.txt:2: empty"));
  EXPECT_EQ(cats.status, cats.problems.front());
  EXPECT_FALSE(cats.spec_is_known);
  ASSERT_THAT(cats.versions, SizeIs(1));
  EXPECT_TRUE(cats.versions[0].weights.has_value());
  EXPECT_EQ(LocationOf(cats.problems[1]).line, 3);
  EXPECT_EQ(LocationOf(cats.problems[1]).file, "model.textproto");
}

// docs/faults.md, row 69.
TEST_P(ModelFoldersTest, ALabelStandsForAVersionThatIsServed) {
  disk_.AddModel("cats", "version_labels { key: \"old\" value: 1 }", 1);
  EXPECT_TRUE(ServedVersions(Read("cats")).ok());
  disk_.AddVersion("cats", 2);
  EXPECT_THAT(Says(ServedVersions(Read("cats")).status()),
              HasSubstr("old stands for version 1, which the version policy does not serve"));
}

TEST_P(ModelFoldersTest, TheFingerprintFollowsTheFilesOfACanary) {
  disk_.AddModel("cats", "canary { input: \"a.jpg\" top_class: \"tom\" }");
  EXPECT_THAT(Says(Read("cats").versions.at(0).status), HasSubstr("a.jpg does not exist"));
  disk_.Write("cats/a.jpg", "1");
  const ModelFolderContents before = Read("cats");
  ASSERT_TRUE(before.versions.at(0).status.ok()) << before.versions.at(0).status;
  EXPECT_EQ(ReadCanary(*before.versions[0].canary)->input, "1");
  disk_.Write("cats/1/a.jpg", "its own");
  const ModelFolderContents after = Read("cats");
  EXPECT_EQ(ReadCanary(*after.versions.at(0).canary)->input, "its own");
  EXPECT_NE(after.fingerprint, before.fingerprint);
  disk_.Write("cats/1/a.jpg", "another");
  const absl::Status changed = ReadCanary(*after.versions[0].canary).status();
  EXPECT_EQ(changed.code(), absl::StatusCode::kUnavailable) << changed;
  EXPECT_NE(Read("cats").fingerprint, after.fingerprint);
}

TEST_P(ModelFoldersTest, ACanaryIsFoundWithoutBeingReadAndWithinItsBound) {
  disk_.AddModel("cats", "canary { input: \"a.f32\" output_file: \"b.f32\" }");
  // Files without bytes on disk: reading them would take memory and time.
  for (const char* file : {"cats/a.f32", "cats/b.f32"}) {
    disk_.Write(file, "");
    std::filesystem::resize_file(disk_ / file, limits::kMaxCanaryFileBytes);
  }
  EXPECT_TRUE(Read("cats").versions.at(0).status.ok());
  std::filesystem::resize_file(disk_ / "cats/b.f32", limits::kMaxCanaryFileBytes + 1);
  EXPECT_THAT(Says(Read("cats").versions.at(0).status),
              HasSubstr("the canary's b.f32 is longer than"));
}

// docs/faults.md, row 26.
TEST_P(ModelFoldersTest, AVersionThatIsALinkOutOfTheRepositoryIsToldAndNotPassedOver) {
  TempRepository outside;
  outside.AddModel("secret");
  disk_.AddModel("cats");
  std::filesystem::create_symlink(outside / "secret/1", disk_ / "cats/2");
  const ModelFolderContents cats = Read("cats");
  ASSERT_THAT(cats.versions, SizeIs(2));
  EXPECT_EQ(cats.versions[1].status.code(), absl::StatusCode::kFailedPrecondition);
}

// docs/faults.md, row 26.
TEST_P(ModelFoldersTest, NothingOutsideTheRepositoryIsRead) {
  TempRepository outside;
  outside.AddModel("secret");
  const std::string spec = "cats/model.textproto";
  const auto refused = [&](std::string_view what) {
    const ModelFolderContents cats = Read("cats");
    EXPECT_EQ(cats.status.code(), absl::StatusCode::kFailedPrecondition) << what << cats.status;
    EXPECT_THAT(Says(cats.status), Not(HasSubstr(outside.root().string())));
  };
  disk_.AddModel("cats");
  disk_.Remove(spec);
  std::filesystem::create_symlink(outside / "secret/model.textproto", disk_ / spec);
  refused("an absolute link");
  disk_.Remove(spec);
  std::filesystem::create_symlink(
      std::filesystem::relative(outside / "secret/model.textproto", disk_ / "cats"), disk_ / spec);
  refused("a relative link");
  disk_.Remove(spec);
  std::filesystem::create_hard_link(outside / "secret/model.textproto", disk_ / spec);
  refused("a hard link");
  disk_.Remove("cats");
  std::filesystem::create_symlink(outside / "secret", disk_ / "cats");
  refused("a folder that is a link");
}

// docs/faults.md, row 100: a model that is a bad link is missing, and not passed over.
TEST_P(ModelFoldersTest, ALinkThatLeadsOutOrNowhereIsAModelThatCannotBeRead) {
  TempRepository outside;
  outside.AddModel("secret");
  outside.Write("notes.md", "read me");
  const auto link = [&](const std::filesystem::path& to, const char* name) {
    std::filesystem::create_symlink(to, disk_ / name);
  };
  link(outside / "secret", "absolute");
  link(std::filesystem::relative(outside / "secret", disk_.root()), "relative");
  link("nothing", "dangling");
  link("loop", "loop");
  link(outside / "notes.md", "notes");
  EXPECT_THAT(folders_.List().names,
              ::testing::ElementsAre("absolute", "dangling", "loop", "relative"));
  for (const char* name : {"absolute", "relative", "loop"}) {
    const absl::Status status = Read(name).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Says(status), HasSubstr(std::string(name) + " leads out of the repository"));
    EXPECT_THAT(Says(status), Not(HasSubstr(outside.root().string())));
  }
  EXPECT_THAT(Says(Read("dangling").status), HasSubstr("dangling is a link that leads nowhere"));
}

// docs/faults.md, row 100: as Kubernetes' volumes, and folders of versions, lie on disk.
TEST_P(ModelFoldersTest, LinksThatStayInsideAreFollowed) {
  disk_.AddModel("cats");
  disk_.Remove("cats/model.textproto");
  disk_.Write("cats/..2026/model.textproto", kPlainSpec);
  std::filesystem::create_symlink("..2026", disk_ / "cats/..data");
  std::filesystem::create_symlink("..data/model.textproto", disk_ / "cats/model.textproto");
  std::filesystem::create_symlink("1", disk_ / "cats/2");
  std::filesystem::create_symlink("cats", disk_ / "dogs");
  std::filesystem::create_directory(disk_ / "cats/3");
  std::filesystem::create_symlink("../../dogs/2/./model.safetensors",
                                  disk_ / "cats/3/model.safetensors");
  for (const char* name : {"cats", "dogs"}) {
    const ModelFolderContents model = Read(name);
    EXPECT_TRUE(model.status.ok()) << model.status;
    ASSERT_THAT(model.versions, SizeIs(3));
    for (const VersionFolderContents& version : model.versions) {
      EXPECT_TRUE(version.status.ok()) << name << "/" << version.number << version.status;
    }
  }
}

TEST_P(ModelFoldersTest, PipesAndDevicesAreRefusedWithoutOpeningThem) {
  disk_.AddModel("cats");
  disk_.Remove("cats/model.textproto");
  ASSERT_EQ(mkfifo((disk_ / "cats/model.textproto").c_str(), 0600), 0);
  EXPECT_EQ(Read("cats").status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Says(Read("cats").status), HasSubstr("not a regular file"));

  disk_.AddModel("dogs");
  disk_.Remove("dogs/1/model.safetensors");
  ASSERT_EQ(mkfifo((disk_ / "dogs/1/model.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(Says(Read("dogs").versions.at(0).status), HasSubstr("not a regular file"));

  disk_.Remove("dogs/1/model.safetensors");
  if (mknod((disk_ / "dogs/1/model.safetensors").c_str(), S_IFCHR | 0600, 0x105) == 0) {
    EXPECT_THAT(Says(Read("dogs").versions.at(0).status), HasSubstr("not a regular file"));
  }
  disk_.Remove("dogs/1/model.safetensors");
  std::filesystem::create_directory(disk_ / "dogs/1/model.safetensors");
  EXPECT_THAT(Says(Read("dogs").versions.at(0).status), HasSubstr("not a regular file"));
}

// docs/faults.md, row 29.
TEST_P(ModelFoldersTest, OnlySafetensorsAreWeights) {
  struct Case {
    std::string bytes;
    const char* says;
  };
  for (const Case& bad :
       {Case{"PK\x03\x04 a zip archive", "zip"}, Case{std::string("\x80\x02}q\0x", 6), "pickle"},
        Case{"\x80\x05\x95 a pickle", "pickle"},
        Case{std::string("\x02\0\0\0\0\0\0\0[]", 10), "not a safetensors"},
        Case{"", "not a safetensors"}, Case{"12345678", "not a safetensors"}}) {
    disk_.AddModel("cats");
    disk_.Write("cats/1/model.safetensors", bad.bytes);
    const ModelFolderContents cats = Read("cats");
    ASSERT_TRUE(cats.versions.at(0).weights.has_value());
    const auto file = OpenWeights(*cats.versions[0].weights);
    EXPECT_EQ(file.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Says(file.status()), HasSubstr("unsupported weight format"));
    EXPECT_THAT(Says(file.status()), HasSubstr(bad.says));
  }
  disk_.Remove("cats/1/model.safetensors");
  disk_.Write("cats/1/pytorch_model.bin", "x");
  EXPECT_THAT(Says(Read("cats").versions.at(0).status),
              HasSubstr("unsupported weight format: '1/pytorch_model.bin'"));
}

TEST_P(ModelFoldersTest, WeightsThatChangeBeforeTheyAreOpenedAreUnavailable) {
  disk_.AddModel("cats");
  const ModelFolderContents cats = Read("cats");
  disk_.Append("cats/1/model.safetensors", "more");
  EXPECT_EQ(OpenWeights(*cats.versions.at(0).weights).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(DescribeModelFolderTest, FindsTheNewestServedWeights) {
  TempRepository disk;
  disk.AddModel("dense", "attention: \"knn:k=9\"", 9);
  disk.AddVersion("dense", 10);
  disk.Write("knn/model.textproto", kPlainSpec + std::string("weights_of: \"dense\""));
  EXPECT_EQ(DescribeModelFolder(disk / "dense").weights,
            std::filesystem::canonical(disk / "dense/10/model.safetensors"));
  EXPECT_THAT(DescribeModelFolder(disk / "dense").attention, ElementsAre("knn:k=9"));
  EXPECT_EQ(DescribeModelFolder(disk / "knn/").weights,
            std::filesystem::canonical(disk / "dense/10/model.safetensors"));
}

TEST(DescribeModelFolderTest, FindsAVersionByItsNumberWhatItsPolicySays) {
  TempRepository disk;
  disk.AddModel("dense", "", 9);
  disk.AddVersion("dense", 10);
  disk.Write("dense/labels.txt", "cat\ndog\n");
  const ModelVersionOnDisk older = DescribeModelVersion(disk / "dense", 9);
  EXPECT_EQ(older.version, 9);
  EXPECT_EQ(older.description.weights,
            std::filesystem::canonical(disk / "dense/9/model.safetensors"));
  EXPECT_THAT(older.labels, ElementsAre("cat", "dog"));
  EXPECT_EQ(DescribeModelVersion(disk / "dense", std::nullopt).version, 10);
  EXPECT_THROW(DescribeModelVersion(disk / "dense", 11), std::runtime_error);
}

TEST(DescribeModelFolderTest, ThrowsASentence) {
  TempRepository disk;
  disk.Write("bad/model.textproto", "max_batch_size: x");
  for (const char* folder : {"bad", "missing"}) {
    EXPECT_THROW(DescribeModelFolder(disk / folder), std::runtime_error) << folder;
  }
}

}  // namespace
}  // namespace fovea
