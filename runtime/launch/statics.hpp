// The values of a routine's static indices: bound in one call, or once for many calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/routine.hpp"

namespace heddle::rt {

/// Checked values: numbers, and cells to read again at every call. Immutable; any thread.
class BoundStatics {
 public:
  /// Throws invalid_argument, naming the index, if an index is unknown, not bound, bound twice, or
  /// outside its bounds. The current value of a cell is checked, too.
  BoundStatics(const Code& code, BindingsView bindings);
  /// Throws invalid_argument if the value of a cell is out of bounds.
  void take(const Code& code, std::span<std::int64_t> values) const;

 private:
  std::vector<std::int64_t> values_;
  std::vector<std::pair<std::size_t, const std::int64_t*>> cells_;
};

/// Like BoundStatics, but indices may stay open; every run gives values for the open ones.
class RecordedStatics {
 public:
  /// Throws like BoundStatics, except for indices that are not bound.
  RecordedStatics(const Code& code, BindingsView bindings);
  explicit RecordedStatics(BoundStatics bound) noexcept : bound_(std::move(bound)) {}
  /// Positions of the open indices in the code's signature.
  [[nodiscard]] const std::vector<std::size_t>& open() const noexcept { return open_; }
  /// `open_values`: one per open index. Throws like BoundStatics.
  void take(const Code& code, std::span<const std::int64_t> open_values,
            std::span<std::int64_t> values) const;

 private:
  std::vector<std::size_t> open_;
  BoundStatics bound_;  // with placeholder values for the open indices
};

/// Writes a value for each of `indices`. `owner`: for messages. Throws like BoundStatics, but
/// checks no bounds.
void take_statics(std::string_view owner, std::span<const StaticIndex> indices,
                  BindingsView bindings, std::span<std::int64_t> values);

/// The source of a launch's static values, during the call that schedules the launch.
class Statics {
 public:
  explicit Statics(BindingsView given) noexcept : given_(given) {}
  explicit Statics(const BoundStatics& bound) noexcept : bound_(&bound) {}
  /// Writes the values in the order of the code's signature. Throws like BoundStatics.
  void take(const Code& code, std::span<std::int64_t> values) const;

 private:
  BindingsView given_;
  const BoundStatics* bound_ = nullptr;  // null: use `given_`
};

}  // namespace heddle::rt
