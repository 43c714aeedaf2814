// Errors are values. A function that can fail returns Result<T> (or Status when there is nothing to return);
// callers add context on the way up and main prints it once.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace profgpu {

/// What went wrong and, where there is one, the next thing to try. Neither ends in a full stop.
struct Error {
  std::string message;
  std::string hint = {};

  /// The same error as seen one level further out: "context: message".
  [[nodiscard]] Error within(const std::string& context) const { return {context + ": " + message, hint}; }
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  [[nodiscard]] const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

struct Nothing {};
using Status = Result<Nothing>;
inline Status ok() { return Nothing{}; }

}  // namespace profgpu
