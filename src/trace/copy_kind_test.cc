#include "trace/copy_kind.h"

#include <gtest/gtest.h>

namespace profgpu {
namespace {

TEST(CopyKind, IsInTheNamesOfAllProfilers) {
  EXPECT_EQ(copy_kind("Memcpy HtoD (Pageable -> Device)"), CopyKind::kHtoD);
  EXPECT_EQ(copy_kind("CopyHostToDevice"), CopyKind::kHtoD);
  EXPECT_EQ(copy_kind("CopyDeviceToHost"), CopyKind::kDtoH);
  EXPECT_EQ(copy_kind("CopyDeviceToDevice"), CopyKind::kDtoD);
  EXPECT_EQ(copy_kind("Memcpy PtoP"), CopyKind::kPtoP);
  EXPECT_EQ(copy_kind("Memset"), CopyKind::kUnknown);
}

}  // namespace
}  // namespace profgpu
