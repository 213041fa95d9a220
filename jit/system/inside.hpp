// Inside: how heddle's own floors, and its tests, come from a handle to what it shares, and back.
#pragma once

#include <memory>
#include <utility>

#include "heddle/types.hpp"

namespace heddle {

struct Inside {
  /// The pointer that copies of this handle share.
  template <class Handle>
  [[nodiscard]] static const auto& of(const Handle& handle) noexcept {
    return handle.state_;
  }
  /// The place of a node in the graph that its handle keeps.
  template <class Handle>
  [[nodiscard]] static auto id_of(const Handle& handle) noexcept {
    return handle.id_;
  }
  /// The computed position of a subscript; null where it has none.
  template <class Subscript>
  [[nodiscard]] static const auto& position_of(const Subscript& subscript) noexcept {
    return subscript.position_;
  }
  /// The subscript with another one.
  template <class Subscript, class Position>
  [[nodiscard]] static Subscript with_position(Subscript subscript, Position position) {
    subscript.position_ = std::move(position);
    return subscript;
  }
  /// Has a view be of another buffer, of as many bytes.
  template <class View, class State>
  static void rebind(View& view, std::shared_ptr<State> buffer) noexcept {
    view.buffer_.state_ = std::move(buffer);
  }
  /// A handle on `state`.
  template <class Handle, class... State>
  [[nodiscard]] static Handle make(State&&... state) {
    return Handle(std::forward<State>(state)...);
  }
};

}  // namespace heddle
