// The values of a routine's static indices: bound in the call, or once for many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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
