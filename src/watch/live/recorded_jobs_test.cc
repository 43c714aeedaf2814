#include "watch/live/recorded_jobs.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/hand_recording.h"
#include "support/test_folder.h"

namespace profgpu {
namespace {

constexpr int64_t kSecond = 1'000'000'000, kMs = 1'000'000;
using wire::RangeOp;

class RecordingTailTest : public testing::Test {
 protected:
  // A recorder only ever appends.
  void write(const HandRecording& recording, size_t until = std::string::npos) {
    std::ofstream(path_, std::ios::binary) << recording.bytes().substr(0, until);
  }
  RecordingTail opened() {
    auto tail = RecordingTail::open(path_, 15 * kSecond);
    EXPECT_TRUE(tail) << tail.error().message;
    return *std::move(tail);
  }
  static RecordingFile read(const RecordingTail& tail) {
    auto file = recording_of(tail.bytes(), "");
    EXPECT_TRUE(file);
    return *std::move(file);
  }
  const TestFolder folder_;
  const std::string path_ = folder_ / "one.pgt";
};

HandRecording begun() {
  HandRecording r;
  r.process(100, 1, "node1", 3).sync(0, 1'790'000'000'000'000'000, 0);
  return r;
}

// One training step of 100 ms from `ms` on: the device is busy for its last 60.
void add_step(HandRecording& r, int64_t ms, int64_t number) {
  const uint32_t thread = r.thread(100, 100);
  r.range(RangeOp::kPush, ms * kMs, thread, "data_loading", "profgpu")
      .range(RangeOp::kPop, (ms + 40) * kMs, thread, "", "profgpu");
  r.range(RangeOp::kPush, (ms + 40) * kMs, thread, "forward", "profgpu");
  r.kernel("gemm", thread, (ms + 39) * kMs, (ms + 40) * kMs, 60 * kMs);
  r.range(RangeOp::kPop, (ms + 99) * kMs, thread, "", "profgpu")
      .range(RangeOp::kStep, (ms + 100) * kMs, thread, "", "profgpu", 0, static_cast<uint64_t>(number));
}

TEST_F(RecordingTailTest, OldRowsGoAndTheirNamesStay) {
  HandRecording r = begun();
  for (int64_t i = 0; i < 5; ++i) add_step(r, i * 100, i);
  write(r);
  RecordingTail tail = opened();
  EXPECT_TRUE(tail.follow(100 * kSecond));
  EXPECT_FALSE(tail.follow(101 * kSecond)) << "nothing is new";
  EXPECT_EQ(read(tail).device_rows, 5);
  add_step(r, 500, 5);
  write(r);
  EXPECT_TRUE(tail.follow(110 * kSecond));
  EXPECT_EQ(read(tail).device_rows, 6);
  tail.follow(116 * kSecond);
  const RecordingFile rest = read(tail);
  EXPECT_EQ(rest.device_rows, 1);
  EXPECT_EQ(rest.number("rank"), 3);
  EXPECT_EQ(rest.bad_chunks, 0);
  EXPECT_GT(rest.queues.size(), 0U);
  EXPECT_FALSE(tail.ended());
}

TEST_F(RecordingTailTest, AChunkThatIsBeingWrittenIsReadWhenItIsWhole) {
  HandRecording r = begun();
  const size_t before = r.bytes().size();
  add_step(r, 0, 0);
  for (size_t end = before; end <= r.bytes().size(); end += 7) {
    write(r, end);
    RecordingTail tail = opened();
    tail.follow(0);
    const RecordingFile file = read(tail);
    EXPECT_EQ(file.torn_bytes + file.damaged_bytes, 0U) << end;
  }
}

TEST_F(RecordingTailTest, EndsAndWhatIsNone) {
  HandRecording r = begun();
  r.end();
  write(r);
  RecordingTail tail = opened();
  tail.follow(0);
  EXPECT_TRUE(tail.ended());
  std::ofstream(path_) << "{}";
  EXPECT_FALSE(RecordingTail::open(path_, kSecond));
  EXPECT_FALSE(RecordingTail::open(path_ + "x", kSecond));
  write(begun());
  std::ofstream(path_, std::ios::app) << std::string(1000, 'x');
  RecordingTail damaged = opened();
  damaged.follow(0);
  EXPECT_TRUE(damaged.ended());
  EXPECT_EQ(read(damaged).number("rank"), 3);
}

TEST_F(RecordingTailTest, WorkInWords) {
  HandRecording r = begun();
  EXPECT_EQ(recorded_work_text(*recording_of(r.bytes(), "")), "");
  for (int64_t i = 0; i < 20; ++i) add_step(r, i * 100, i);
  EXPECT_EQ(recorded_work_text(*recording_of(r.bytes(), "")),
            "forward 59 %, data loading 40 %; GPU idle 39 %, most of it host bound (39 %)");
}

}  // namespace
}  // namespace profgpu
