// Inside: access from a handle to its shared state and back, for heddle's own layers and tests.
#pragma once

#include <memory>
#include <utility>

#include "heddle/types.hpp"

namespace heddle {

struct Inside {
  /// The pointer shared by copies of the handle.
  template <class Handle>
  [[nodiscard]] static const auto& of(const Handle& handle) noexcept {
    return handle.state_;
  }
  /// The id of a node in the graph kept by the node's handle.
  template <class Handle>
  [[nodiscard]] static auto id_of(const Handle& handle) noexcept {
    return handle.id_;
  }
  /// The computed position of a subscript; null without one.
  template <class Subscript>
  [[nodiscard]] static const auto& position_of(const Subscript& subscript) noexcept {
    return subscript.position_;
  }
  /// The subscript with `position` as its computed position.
  template <class Subscript, class Position>
  [[nodiscard]] static Subscript with_position(Subscript subscript, Position position) {
    subscript.position_ = std::move(position);
    return subscript;
  }
  /// Makes a view refer to a different buffer of the same size.
  template <class View, class State>
  static void rebind(View& view, std::shared_ptr<State> buffer) noexcept {
    view.buffer_.state_ = std::move(buffer);
  }
  /// Exchanges the states of two handles, without a change of their counts.
  template <class Handle, class Other>
  static void swap(Handle& handle, Other& other) noexcept {
    handle.state_.swap(other.state_);
  }
  /// A handle on `state`.
  template <class Handle, class... State>
  [[nodiscard]] static Handle make(State&&... state) {
    return Handle(std::forward<State>(state)...);
  }
};

}  // namespace heddle
