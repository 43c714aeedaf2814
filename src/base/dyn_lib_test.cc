#include "base/dyn_lib.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

TEST(DynLib, OpensAndFinds) {
  auto library = DynLib::open("libz.so.1");
  ASSERT_TRUE(library) << library.error().message;
  EXPECT_EQ(library->path()[0], '/');
  const auto version = library->symbol<const char* (*)()>("zlibVersion");
  ASSERT_TRUE(version);
  EXPECT_EQ(version()[0], '1');
  EXPECT_FALSE(library->symbol<void (*)()>("no_such_function"));
  DynLib moved = std::move(*library);
  EXPECT_TRUE(moved);
}

TEST(DynLib, TakesTheFirstThatThereIs) {
  auto library = DynLib::open_first({"libno-such-thing.so.9", "libz.so.1"});
  ASSERT_TRUE(library);
  EXPECT_NE(library->path().find("libz"), std::string::npos);
}

TEST(DynLib, SaysWhatIsWrong) {
  auto none = DynLib::open_first({"libno-such-thing.so.9", "/no/such/lib.so"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "no library found: tried libno-such-thing.so.9, /no/such/lib.so");
  auto broken = DynLib::open_first({"libno-such-thing.so.9", "/proc/self/cmdline"});
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find("cmdline"), std::string::npos) << broken.error().message;
  EXPECT_FALSE(DynLib());
}

}  // namespace
}  // namespace profgpu
