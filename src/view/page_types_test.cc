// The types of the page's code for the document of `analyze --json` are made from the C++ types that write it: this
// test compares web/src/report_types.ts with them. PROFGPU_WRITE_TYPES=1 writes it.
#include <cxxabi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <typeinfo>

#include "analyse/job/report.h"
#include "analyse/report/document.h"
#include "analyse/run/log_report.h"

namespace profgpu {
namespace {

class TypeScript {
 public:
  /// What the document has for a value of a type, as TypeScript names it.
  template <class T>
  std::string type_of() {
    if constexpr (std::is_pointer_v<T> && Named<std::remove_pointer_t<T>>) {
      return type_of<std::remove_const_t<std::remove_pointer_t<T>>>() + " | null";
    } else if constexpr (Named<T> && !std::default_initializable<T>) {
      return "Record<string, unknown>";   // its fields depend on what it is of
    } else if constexpr (Named<T>) {
      return interface_of<T>();
    } else if constexpr (requires(const T& x) { x.has_value(); }) {
      return type_of<typename T::value_type>() + " | null";
    } else if constexpr (requires(const T& x) { x.listed(); }) {
      return type_of<std::remove_cvref_t<decltype(std::declval<const T&>().listed())>>();
    } else if constexpr (requires { typename T::mapped_type; }) {
      return "Record<string, " + type_of<typename T::mapped_type>() + ">";
    } else if constexpr (std::is_same_v<T, bool>) {
      return "boolean";
    } else if constexpr (std::is_arithmetic_v<T>) {
      return "number";
    } else if constexpr (std::convertible_to<const T&, std::string_view>) {
      return "string";
    } else {
      const std::string item = type_of<typename T::value_type>();
      return item.find(" | ") == item.npos ? item + "[]" : "(" + item + ")[]";
    }
  }
  /// Fields that not every row has; those are seen in `whole` only.
  template <class T>
  std::string interface_of(const T& whole = {}) {
    const std::string name = name_of<T>();
    if (!known_.insert(name).second) return name;
    std::set<std::string> always;
    T().fields([&](std::string_view field, const auto&) { always.emplace(field); });
    std::string text = "export interface " + name + " {\n";
    whole.fields([&]<class Field>(std::string_view field, const Field&) {
      text += "  " + std::string(field) + (always.contains(std::string(field)) ? "" : "?") + ": " + type_of<Field>() +
              ";\n";
    });
    text_ += text + "}\n";
    return name;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  // "DeviceRow" of profgpu::DeviceRow, "ThreadTimeCall" of profgpu::ThreadTime::Call.
  template <class T>
  static std::string name_of() {
    char* const demangled = abi::__cxa_demangle(typeid(T).name(), nullptr, nullptr, nullptr);
    std::string name(demangled), out;
    std::free(demangled);
    name.erase(0, std::string_view("profgpu::").size());
    for (const char c : name)
      if (c != ':') out += c;
    return out;
  }

  std::string text_ =
      "// Made from the C++ types by src/view/page_types_test.cc: PROFGPU_WRITE_TYPES=1 writes it again.\n";
  std::set<std::string> known_;
};

TEST(PageTypes, AreThoseOfTheReport) {
  TypeScript types;
  types.interface_of<InputFile>();
  types.interface_of<Finding>();
  types.interface_of<StepSaving>();
  types.interface_of<Check>();
  AverageStep with_hang;
  with_hang.includes_hang = true;
  types.interface_of(with_hang);
  types.interface_of<Job>();
  types.interface_of<LogReport>();
  std::string sections;
  RankReport::sections(RankReport(), [&]<class T>(const Section& section, const T&) {
    sections += "  " + std::string(section.name) + ": " + types.type_of<T>() + ";\n";
  });
  const std::string text = types.text() + "export interface RankSections {\n" + sections + "}\n";
  const char* const path = "web/src/report_types.ts";
  if (std::getenv("PROFGPU_WRITE_TYPES")) std::ofstream(path) << text;
  std::stringstream there;
  there << std::ifstream(path).rdbuf();
  EXPECT_EQ(there.str(), text)
      << "PROFGPU_WRITE_TYPES=1 build/dev/tests/test_view --gtest_filter=PageTypes.* writes it";
}

}  // namespace
}  // namespace profgpu
