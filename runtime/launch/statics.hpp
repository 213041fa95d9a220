// The values of a routine's static indices: bound in the call, or once for many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/routine.hpp"

namespace heddle::rt {

/// Values that were checked: numbers, and cells to be read again. Immutable; any thread.
class BoundStatics {
 public:
  /// Throws invalid_argument, naming the index, where one is not bound, bound twice, or outside its
  /// bounds; so a cell now.
  BoundStatics(const Code& code, BindingsView bindings);
  /// Throws invalid_argument where a cell holds no value of its index.
  void take(const Code& code, std::span<std::int64_t> values) const;

 private:
  std::vector<std::int64_t> values_;
  std::vector<std::pair<std::size_t, const std::int64_t*>> cells_;
};

/// As those, where some may be left open: each run has values of its own for them.
class RecordedStatics {
 public:
  /// Throws as BoundStatics, but for indices that are not bound.
  RecordedStatics(const Code& code, BindingsView bindings);
  explicit RecordedStatics(BoundStatics bound) noexcept : bound_(std::move(bound)) {}
  /// Positions in the code's signature.
  [[nodiscard]] const std::vector<std::size_t>& open() const noexcept { return open_; }
  /// `open_values`: one for each of those. Throws as BoundStatics does.
  void take(const Code& code, std::span<const std::int64_t> open_values,
            std::span<std::int64_t> values) const;

 private:
  std::vector<std::size_t> open_;
  BoundStatics bound_;  // with any values for those
};

/// A value for each of these indices, of whatever `owner` says. Throws as BoundStatics does, but
/// for bounds.
void take_statics(std::string_view owner, std::span<const StaticIndex> indices,
                  BindingsView bindings, std::span<std::int64_t> values);

/// What a launch has its values from, during the call that schedules it.
class Statics {
 public:
  explicit Statics(BindingsView given) noexcept : given_(given) {}
  explicit Statics(const BoundStatics& bound) noexcept : bound_(&bound) {}
  /// In the order of the code's signature. Throws as BoundStatics does.
  void take(const Code& code, std::span<std::int64_t> values) const;

 private:
  BindingsView given_;
  const BoundStatics* bound_ = nullptr;  // null: as given
};

}  // namespace heddle::rt
