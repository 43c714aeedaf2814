#include "devices/drm_card.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "devices/drm_tree_test.h"

namespace profgpu {
namespace {

TEST(DrmFile, FormsOfNumbers) {
  EXPECT_EQ(number_in_file("1234\n", FileForm::kNumber), 1234);
  EXPECT_EQ(number_in_file("-5\n", FileForm::kNumber), -5);
  EXPECT_EQ(number_in_file("0: 300Mhz\n1: 1200Mhz *\n2: 1700Mhz\n", FileForm::kCurrentClock), 1200);
  EXPECT_EQ(number_in_file("0: 300Mhz\n1: 1200Mhz *\n2: 1700Mhz\n", FileForm::kHighestClock), 1700);
  EXPECT_EQ(number_in_file("S: 19Mhz *\n0: 500Mhz\n1: 2304Mhz\n", FileForm::kCurrentClock), 19);
  EXPECT_EQ(number_in_file("16.0 GT/s PCIe\n", FileForm::kLinkGeneration), 4);
  EXPECT_EQ(number_in_file("2.5 GT/s PCIe\n", FileForm::kLinkGeneration), 1);
  EXPECT_EQ(number_in_file("ue: 3\nce: 17\n", FileForm::kUncorrected), 3);
  EXPECT_EQ(number_in_file("ue: 3\nce: 17\n", FileForm::kCorrected), 17);
}

TEST(DrmFile, WhatIsNoNumberIsAbsent) {
  for (const char* text : {"", "\n", "N/A\n", "12 34\n", "0x10\n", "1e400\n", "nan\n", "\xff\xfe\x00", "Unknown\n"})
    EXPECT_FALSE(number_in_file(text, FileForm::kNumber)) << text;
  EXPECT_FALSE(number_in_file("0: 300Mhz\n1: 1200Mhz\n", FileForm::kCurrentClock)) << "no star";
  EXPECT_FALSE(number_in_file("0: xMhz *\n", FileForm::kCurrentClock));
  EXPECT_FALSE(number_in_file("Unknown\n", FileForm::kLinkGeneration));
  EXPECT_FALSE(number_in_file("17.0 GT/s PCIe\n", FileForm::kLinkGeneration));
  EXPECT_FALSE(number_in_file("ce: 17\n", FileForm::kUncorrected));
}

TEST(DrmFile, SaysWhyAndRecovers) {
  const DrmTree tree;
  const std::string path = tree.root() + "/value";
  EXPECT_EQ(DrmFile(Metric::kPower, path, 1, FileForm::kNumber).why_absent(),
            "the kernel's driver has no value for this device");
  tree.write("value", "250000000\n");
  DrmFile file(Metric::kPower, path, 1e-6, FileForm::kNumber);
  EXPECT_EQ(file.why_absent(), "not read yet");
  EXPECT_EQ(file.read(), 250);
  EXPECT_EQ(file.why_absent(), "");
  tree.write("value", "garbage\n");
  EXPECT_FALSE(file.read());
  EXPECT_EQ(file.why_absent(), "value does not contain a number");
  tree.write("value", "-1\n");
  EXPECT_FALSE(file.read());
  EXPECT_EQ(file.why_absent(), "value has an impossible value");
  tree.write("value", std::string(1 << 20, '9'));
  EXPECT_FALSE(file.read());
  tree.write("value", "");
  EXPECT_FALSE(file.read());
  tree.write("value", "1000000\n");
  EXPECT_EQ(file.read(), 1);
  DrmFile percent(Metric::kUtilization, path, 1, FileForm::kNumber);
  EXPECT_FALSE(percent.read()) << "a million percent";
  DrmFile degrees(Metric::kTemperature, path, 1e-3, FileForm::kNumber);
  tree.write("value", "-12000\n");
  EXPECT_EQ(degrees.read(), -12) << "it may be cold";
  DrmFile folder(Metric::kPower, tree.root(), 1, FileForm::kNumber);
  EXPECT_FALSE(folder.read());
  EXPECT_NE(folder.why_absent().find("Is a directory"), std::string::npos);
}

TEST(DrmFile, SlowOnesTakeTurns) {
  const DrmTree tree;
  tree.write("a", "1\n"), tree.write("b", "2\n"), tree.write("c", "3\n");
  DrmFiles files;
  files.add(DrmFiles::kFast, Metric::kUtilization, {tree.root() + "/a"});
  files.add(DrmFiles::kSlow, Metric::kTemperature, {tree.root() + "/b"});
  files.add(DrmFiles::kSlow, Metric::kFanSpeed, {tree.root() + "/missing"});
  files.add(DrmFiles::kSlow, Metric::kSmClock, {tree.root() + "/missing", tree.root() + "/c"});
  Reading reading;
  for (int tick = 1; tick <= 10; ++tick) files.read({tick * 100'000'000LL, false, false}, reading);
  int of[3] = {};
  for (const Sample& s : reading.samples)
    ++of[s.metric == Metric::kUtilization ? 0 : s.metric == Metric::kTemperature ? 1 : 2];
  EXPECT_EQ(of[0], 10);
  EXPECT_EQ(of[1], 5);
  EXPECT_EQ(of[2], 5);
  EXPECT_EQ(files.calls(), 20);
  files.add(DrmFiles::kFast, Metric::kPower, {tree.root() + "/b"});
  files.add(DrmFiles::kFast, Metric::kMemoryUsed, {tree.root() + "/c"});
  reading.clear();
  for (int tick = 11; tick <= 20; ++tick) files.read({tick * 100'000'000LL, false, false}, reading);
  EXPECT_EQ(files.calls(), 50) << "three a tick";
  EXPECT_EQ(std::count_if(reading.samples.begin(), reading.samples.end(),
                          [](const Sample& s) { return s.metric == Metric::kMemoryUsed; }),
            5);
  EXPECT_EQ(files.why_absent(Metric::kFanSpeed), "the kernel's driver has no missing for this device");
  EXPECT_FALSE(files.why_absent(Metric::kEnergy));
  reading.clear();
  files.read({2'000'000'000, false, true}, reading);
  EXPECT_EQ(reading.samples.size(), 5u);
}

}  // namespace
}  // namespace profgpu
