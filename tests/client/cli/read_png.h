// The pictures that the command line writes.
#pragma once

#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "server/imaging/decode.h"
#include "server/imaging/probe.h"

namespace fovea::client {

// Empty where it is none, and the test fails.
inline RgbImage ReadPng(const std::filesystem::path& path) {
  std::stringstream file;
  file << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string bytes = file.str();
  const Bytes contents = std::as_bytes(std::span(bytes));
  const auto info = ProbeImage(contents, {});
  EXPECT_TRUE(info.ok()) << path << ": " << info.status();
  if (!info.ok()) return {};
  auto image = DecodeImage(contents, *info);
  EXPECT_TRUE(image.ok()) << path << ": " << image.status();
  return image.ok() ? *std::move(image) : RgbImage();
}

}  // namespace fovea::client
