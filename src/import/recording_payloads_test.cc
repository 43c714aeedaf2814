#include "import/recording_payloads.h"

#include <gtest/gtest.h>

#include "import/recording.h"
#include "support/hand_recording.h"

namespace profgpu {
namespace {

using wire::PayloadField;
using wire::SchemaKind;

constexpr uint64_t kInt32 = 15, kUint8 = 12, kInt64 = 17;
constexpr uint64_t kFixedArray = 1 << 4, kLengthInField = 3 << 4;
constexpr std::string_view kTwo("\2\0\0\0", 4);

/// A recording with one event, whose payload the test describes.
class PayloadRecording {
 public:
  PayloadRecording& schema(uint64_t number, std::vector<PayloadField> fields, SchemaKind kind = SchemaKind::kStatic,
                           uint64_t size = 0) {
    const uint32_t domain = recording_.string("lib");
    recording_.add(wire::PayloadSchema{++schemas_, domain, number, 0, kind, size, 0});
    for (uint32_t i = 0; i < fields.size(); ++i) fields[i].of = schemas_, fields[i].place = i;
    recording_.add(fields);
    return *this;
  }
  PayloadField field(std::string_view name, uint64_t type, uint64_t flags = 0, uint64_t detail = 0,
                     uint64_t offset = 0) {
    return {0, 0, recording_.string(name), flags, type, detail, offset};
  }
  PayloadText said(uint64_t schema, std::string_view data) {
    recording_.payload(1, "lib", schema, data).end();
    file_ = recording_of(recording_.bytes(), "one.pgt");
    EXPECT_TRUE(file_);
    PayloadDecoder decoder(*file_);
    wire::RangeEvent event;
    event.payload_type = wire::PayloadType::kExtended;
    event.payload = 1;
    PayloadText text = decoder.of(event);
    left_out_ = decoder.left_out();
    return text;
  }
  [[nodiscard]] int64_t left_out() const { return left_out_; }

 private:
  HandRecording recording_;
  Result<RecordingFile> file_ = Error{};
  uint32_t schemas_ = 0;
  int64_t left_out_ = 0;
};

TEST(RecordingPayloads, fields_stand_at_their_offset_or_behind_the_one_before) {
  PayloadRecording r;
  r.schema(100, {r.field("a", kUint8), r.field("b", kInt32), r.field("c", kUint8, 0, 0, 2)});
  EXPECT_EQ(r.said(100, {"\1\0\3\0\376\377\377\377", 8}).members, R"("a": 1, "b": -2, "c": 3)");
  EXPECT_EQ(r.left_out(), 0);
}

TEST(RecordingPayloads, a_circle_of_schemas_is_refused_and_what_has_it_inside) {
  PayloadRecording r;
  r.schema(100, {r.field("to b", 101)}).schema(101, {r.field("to a", 100)});
  r.schema(102, {r.field("first", kInt32), r.field("circle", 100)});
  EXPECT_EQ(r.said(102, {"\2\0\0\0....", 8}).members, R"("payload": "0x020000002e2e2e2e")");
  EXPECT_EQ(r.left_out(), 1);
}

TEST(RecordingPayloads, schemas_in_schemas_end_somewhere) {
  PayloadRecording r;
  // Each has a hundred of the one before: 10^16 fields, if all were looked at.
  r.schema(100, {r.field("x", kUint8)});
  for (uint64_t i = 1; i <= 8; ++i) {
    std::vector<PayloadField> fields(100, r.field("inside", 99 + i, 0, 0, 1));
    r.schema(100 + i, fields, SchemaKind::kStatic, 1);
  }
  const PayloadText text = r.said(107, std::string(256, '\1'));
  EXPECT_LT(text.members.size(), 20'000U);
  EXPECT_GT(r.left_out(), 0);
}

TEST(RecordingPayloads, lengths_that_lie_and_offsets_outside_are_left_out) {
  PayloadRecording r;
  r.schema(100, {r.field("count", kInt64), r.field("values", kInt32, kLengthInField, 0),
                 r.field("far", kInt32, 0, 0, 1u << 30), r.field("many", kUint8, kFixedArray, ~uint64_t{0}, 8),
                 r.field("itself", kInt32, kLengthInField, 4, 8)});
  EXPECT_EQ(r.said(100, {"\377\377\377\377\377\377\377\177....", 12}).members, R"("count": 9223372036854775807)");
  EXPECT_EQ(r.left_out(), 4);
}

TEST(RecordingPayloads, numbers_have_names_where_an_enumeration_gives_them) {
  PayloadRecording r;
  PayloadField sum = r.field("Sum", 0), read = r.field("read", 0, 1), write = r.field("write", 0, 1);
  sum.offset = 8, read.offset = 1, write.offset = 2;
  r.schema(200, {sum, read, write}, SchemaKind::kEnumeration, 4);
  r.schema(100, {r.field("op", 200), r.field("mode", 200), r.field("other", 200)});
  EXPECT_EQ(r.said(100, {"\10\0\0\0\3\0\0\0\5\0\0\0", 12}).members, R"("op": "Sum", "mode": "read|write", "other": 5)");
}

TEST(RecordingPayloads, data_without_a_schema_is_shown_as_bytes) {
  PayloadRecording r;
  EXPECT_EQ(r.said(uint64_t{1} << 24, kTwo).members, R"("payload": "0x02000000")");
  EXPECT_EQ(r.left_out(), 1);
}

}  // namespace
}  // namespace profgpu
