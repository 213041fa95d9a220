// Inside: how heddle's own floors, and its tests, come from a handle to what it shares, and back.
#pragma once

#include <utility>

#include "heddle/types.hpp"

namespace heddle {

struct Inside {
  /// The pointer that copies of this handle share.
  template <class Handle>
  [[nodiscard]] static const auto& of(const Handle& handle) noexcept {
    return handle.state_;
  }
  /// A handle on `state`.
  template <class Handle, class... State>
  [[nodiscard]] static Handle make(State&&... state) {
    return Handle(std::forward<State>(state)...);
  }
};

}  // namespace heddle
