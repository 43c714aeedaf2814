#include "trace/import/recording_payloads.h"

#include <random>

#include <gtest/gtest.h>

#include "support/hand_recording.h"

namespace profgpu {
namespace {

using wire::PayloadField;
using wire::SchemaKind;

constexpr uint64_t kInt32 = 15, kUint8 = 12, kInt64 = 17, kFloat = 19, kText = 75, kSelector = 100;
constexpr uint64_t kPointer = 1 << 1, kFixedArray = 1 << 4, kZeroTerminated = 2 << 4, kLengthInField = 3 << 4;
constexpr uint64_t kHide = 1 << 9;
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
    recording_.payload(++events_, "lib", schema, data);
    file_ = recording_of(recording_.bytes(), "one.pgt");
    EXPECT_TRUE(file_);
    PayloadDecoder decoder(*file_);
    wire::RangeEvent event;
    event.payload_type = wire::PayloadType::kExtended;
    event.payload = events_;
    PayloadText text = decoder.of(event);
    left_out_ = decoder.left_out();
    return text;
  }
  [[nodiscard]] int64_t left_out() const { return left_out_; }

 private:
  HandRecording recording_;
  Result<RecordingFile> file_ = Error{};
  uint32_t schemas_ = 0;
  uint64_t events_ = 0;
  int64_t left_out_ = 0;
};

TEST(RecordingPayloads, fields_stand_at_their_offset_or_behind_the_one_before) {
  PayloadRecording r;
  r.schema(300, {r.field("a", kUint8), r.field("b", kInt32), r.field("c", kUint8, 0, 0, 2)});
  EXPECT_EQ(r.said(300, {"\1\0\3\0\376\377\377\377", 8}).members, R"("a": 1, "b": -2, "c": 3)");
  EXPECT_EQ(r.left_out(), 0);
}

TEST(RecordingPayloads, a_circle_of_schemas_is_refused_and_what_has_it_inside) {
  PayloadRecording r;
  r.schema(300, {r.field("to b", 301)}).schema(301, {r.field("to a", 300)});
  r.schema(302, {r.field("first", kInt32), r.field("circle", 300)});
  EXPECT_EQ(r.said(302, {"\2\0\0\0....", 8}).members, R"("payload": "0x020000002e2e2e2e")");
  EXPECT_EQ(r.left_out(), 1);
}

TEST(RecordingPayloads, schemas_in_schemas_end_somewhere) {
  PayloadRecording r;
  // Each has a hundred of the one before: 10^16 fields, if all were looked at.
  r.schema(300, {r.field("x", kUint8)});
  for (uint64_t i = 1; i <= 8; ++i) {
    std::vector<PayloadField> fields(100, r.field("inside", 299 + i, 0, 0, 1));
    r.schema(300 + i, fields, SchemaKind::kStatic, 1);
  }
  const PayloadText text = r.said(307, std::string(256, '\1'));
  EXPECT_LT(text.members.size(), 20'000U);
  EXPECT_GT(r.left_out(), 0);
}

TEST(RecordingPayloads, lengths_that_lie_and_offsets_outside_are_left_out) {
  PayloadRecording r;
  r.schema(300, {r.field("count", kInt64), r.field("values", kInt32, kLengthInField, 0),
                 r.field("far", kInt32, 0, 0, 1u << 30), r.field("many", kUint8, kFixedArray, ~uint64_t{0}, 8),
                 r.field("itself", kInt32, kLengthInField, 4, 8)});
  EXPECT_EQ(r.said(300, {"\377\377\377\377\377\377\377\177....", 12}).members, R"("count": 9223372036854775807)");
  EXPECT_EQ(r.left_out(), 4);
}

TEST(RecordingPayloads, numbers_have_names_where_an_enumeration_gives_them) {
  PayloadRecording r;
  PayloadField sum = r.field("Sum", 0), read = r.field("read", 0, 1), write = r.field("write", 0, 1);
  sum.offset = 8, read.offset = 1, write.offset = 2;
  r.schema(200, {sum, read, write}, SchemaKind::kEnumeration, 4);
  r.schema(300, {r.field("op", 200), r.field("mode", 200), r.field("other", 200)});
  EXPECT_EQ(r.said(300, {"\10\0\0\0\3\0\0\0\5\0\0\0", 12}).members, R"("op": "Sum", "mode": "read|write", "other": 5)");
}

TEST(RecordingPayloads, a_union_shows_the_field_that_another_chooses) {
  PayloadRecording r;
  r.schema(200, {r.field("whole", kInt32), r.field("part", kFloat)}, SchemaKind::kUnion);
  PayloadField none = r.field("none", 0), part = r.field("part", 0);
  part.offset = 1;
  r.schema(201, {none, part}, SchemaKind::kEnumeration, 4);
  r.schema(300, {r.field("which", kUint8), r.field("value", 200), r.field("after", kUint8)});
  r.schema(301, {r.field("value", 200, 0, 1), r.field("which", 201, 0, 0, 4)});
  EXPECT_EQ(r.said(300, {"\0...\2\0\0\0\7", 9}).members, R"("which": 0, "value.whole": 2, "after": 7)");
  EXPECT_EQ(r.left_out(), 0);
  EXPECT_EQ(r.said(301, {"\0\0\200\77\1\0\0\0", 8}).members, R"("value.part": 1, "which": "part")");
  EXPECT_EQ(r.left_out(), 0);
  EXPECT_EQ(r.said(300, {"\2...\2\0\0\0\7", 9}).members, R"("which": 2, "after": 7)");
  EXPECT_EQ(r.left_out(), 1);
}

TEST(RecordingPayloads, a_union_shows_all_its_fields_where_nothing_chooses) {
  PayloadRecording r;
  r.schema(200, {r.field("whole", kInt32), r.field("byte", kUint8)}, SchemaKind::kUnion);
  r.schema(300, {r.field("value", 200), r.field("after", kUint8)});
  EXPECT_EQ(r.said(300, {"\1\2\0\0\7", 5}).members, R"("value.whole": 513, "value.byte": 1, "after": 7)");
  EXPECT_EQ(r.said(200, {"\1\2\0\0", 4}).members, R"("whole": 513, "byte": 1)");
  EXPECT_EQ(r.left_out(), 0);
}

TEST(RecordingPayloads, a_union_may_say_itself_which_field_it_is) {
  PayloadRecording r;
  r.schema(200, {r.field("which", kSelector), r.field("whole", kInt32, 0, 0, 4), r.field("part", kFloat, 0, 0, 4)},
           SchemaKind::kOwnUnion);
  r.schema(300, {r.field("values", 200, kFixedArray, 3)});
  const std::string_view data("\1\0\0\0\5\0\0\0\2\0\0\0\0\0\200\77\3\0\0\0\0\0\0\0", 24);
  EXPECT_EQ(r.said(300, data).members, R"("values[0].whole": 5, "values[1].part": 1)");
  EXPECT_EQ(r.left_out(), 1);
}

TEST(RecordingPayloads, structures_stand_one_after_the_other) {
  PayloadRecording r;
  r.schema(200, {r.field("a", kUint8), r.field("b", kInt32)});
  r.schema(201, {r.field("x", kUint8), r.field("y", kUint8)}, SchemaKind::kStatic, 2);
  r.schema(300, {r.field("two", 200, kFixedArray, 2), r.field("after", kUint8)});
  r.schema(301, {r.field("count", kUint8), r.field("some", 201, kLengthInField, 0), r.field("after", kUint8)});
  r.schema(302, {r.field("some", 201, kZeroTerminated), r.field("after", kUint8)});
  r.schema(303, {r.field("some", 200, kZeroTerminated), r.field("after", kUint8)});
  EXPECT_EQ(r.said(300, {"\1...\2\0\0\0\3...\4\0\0\0\5", 17}).members,
            R"("two[0].a": 1, "two[0].b": 2, "two[1].a": 3, "two[1].b": 4, "after": 5)");
  EXPECT_EQ(r.said(301, {"\2\1\2\3\4\5", 6}).members,
            R"("count": 2, "some[0].x": 1, "some[0].y": 2, "some[1].x": 3, "some[1].y": 4, "after": 5)");
  EXPECT_EQ(r.said(302, {"\1\0\0\2\0\0\7", 7}).members,
            R"("some[0].x": 1, "some[0].y": 0, "some[1].x": 0, "some[1].y": 2, "after": 7)");
  EXPECT_EQ(r.said(303, {"\1...\2\0\0\0\0\0\0\0\0\0\0\0\7", 17}).members,
            R"("some[0].a": 1, "some[0].b": 2, "after": 7)");
  EXPECT_EQ(r.left_out(), 0);
}

TEST(RecordingPayloads, pointers_are_shown_as_addresses) {
  PayloadRecording r;
  r.schema(300, {r.field("text", kText), r.field("values", kInt32, kPointer | kFixedArray, 3),
                 r.field("next", 300, kPointer), r.field("hidden", kText, kHide), r.field("after", kUint8)});
  EXPECT_EQ(r.said(300, {"\1\0\0\0\0\0\0\0\0\020\0\0\0\0\0\0\0\0\0\0\0\0\0\0........\7", 33}).members,
            R"("text": "0x1", "values": "0x1000", "next": "0x0", "after": 7)");
  EXPECT_EQ(r.left_out(), 0);
}

TEST(RecordingPayloads, hidden_structures_are_not_shown) {
  PayloadRecording r;
  r.schema(200, {r.field("x", kUint8)});
  r.schema(300, {r.field("one", 200, kHide), r.field("two", 200, kHide | kFixedArray, 2), r.field("after", kUint8)});
  EXPECT_EQ(r.said(300, "\1\2\3\4").members, R"("after": 4)");
  EXPECT_EQ(r.left_out(), 0);
}

TEST(RecordingPayloads, arrays_of_structures_that_lie_end_with_the_data) {
  PayloadRecording r;
  r.schema(200, {r.field("x", kUint8)}, SchemaKind::kStatic, 1);
  r.schema(201, {}, SchemaKind::kStatic);                                      // of no bytes
  r.schema(202, {r.field("x", kUint8)}, SchemaKind::kStatic, ~uint64_t{0});
  const uint64_t many = uint64_t{1} << 63;
  r.schema(300, {r.field("some", 200, kFixedArray, many)});
  r.schema(301, {r.field("none", 201, kFixedArray, many), r.field("huge", 202, kFixedArray, many, 1),
                 r.field("endless", 200, kZeroTerminated, 0, 1)});
  EXPECT_EQ(r.said(300, "\1\2").members, R"("some[0].x": 1, "some[1].x": 2)");
  EXPECT_EQ(r.left_out(), 1);
  EXPECT_EQ(r.said(301, "\1\2").members, R"("huge[0].x": 2, "endless[0].x": 2)");
  EXPECT_EQ(r.left_out(), 3);
}

TEST(RecordingPayloads, unions_and_arrays_in_one_another_end_somewhere) {
  PayloadRecording r;
  r.schema(300, {r.field("x", kUint8)});
  for (uint64_t i = 1; i <= 7; ++i) {
    const uint64_t array = i % 2 == 0 ? kZeroTerminated : kFixedArray;
    std::vector<PayloadField> fields(100, r.field("inside", 299 + i, array, ~uint64_t{0}));
    r.schema(300 + i, fields, i % 3 == 0 ? SchemaKind::kUnion : SchemaKind::kOwnUnion);
  }
  const PayloadText text = r.said(307, std::string(256, '\1'));
  EXPECT_LT(text.members.size(), 20'000U);
  EXPECT_GT(r.left_out(), 0);
}

TEST(RecordingPayloads, whatever_schemas_say_no_byte_outside_is_read) {
  std::mt19937_64 random(1);
  const auto one_of = [&](std::initializer_list<uint64_t> choice) { return choice.begin()[random() % choice.size()]; };
  for (int round = 0; round < 300; ++round) {
    PayloadRecording r;
    for (uint64_t number = 300; number < 308; ++number) {
      std::vector<PayloadField> fields;
      for (uint64_t n = random() % 6; n-- > 0;) {
        const uint64_t type =
            one_of({kUint8, kInt32, kInt64, kText, kSelector, 32, 300 + random() % 8, 299 + random() % 9});
        const uint64_t flags = one_of({0, 0, kPointer, kHide}) | random() % 5 << 4;
        fields.push_back(r.field("f", type, flags, one_of({0, 1, 2, 3, random()}), one_of({0, 0, 0, 4, 9, random()})));
      }
      r.schema(number, fields, static_cast<SchemaKind>(1 + random() % 5), one_of({0, 0, 1, 4, 16, random()}));
    }
    for (uint64_t number = 300; number < 308; ++number) {
      std::string data(random() % 40, '\0');
      for (char& c : data) c = static_cast<char>(one_of({0, 1, 2, random()}));
      EXPECT_LT(r.said(number, data).members.size(), 20'000U);
    }
  }
}

TEST(RecordingPayloads, a_circle_through_unions_and_arrays_is_refused) {
  PayloadRecording r;
  r.schema(300, {r.field("to b", 301, kFixedArray, 2)}, SchemaKind::kUnion);
  r.schema(301, {r.field("to a", 300)}, SchemaKind::kOwnUnion);
  EXPECT_EQ(r.said(300, kTwo).members, R"("payload": "0x02000000")");
  EXPECT_EQ(r.left_out(), 1);
}

TEST(RecordingPayloads, data_without_a_schema_is_shown_as_bytes) {
  PayloadRecording r;
  EXPECT_EQ(r.said(uint64_t{1} << 24, kTwo).members, R"("payload": "0x02000000")");
  EXPECT_EQ(r.left_out(), 1);
}

}  // namespace
}  // namespace profgpu
