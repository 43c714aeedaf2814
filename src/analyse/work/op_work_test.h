// What an operator computes and moves, from texts as profilers write them.
#pragma once

#include <gtest/gtest.h>

#include "analyse/work/op_work.h"

namespace profgpu {

inline OpWork work_of(std::string_view name, std::string_view shapes, std::string_view types,
                      std::string_view values = "") {
  return op_work(op_inputs(name, shapes, types, values));
}

}  // namespace profgpu
