// Parties: a tensor in several contexts, as used by a collective, and checks of its memory.
// Immutable; any thread.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heddle/routine.hpp"
#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/allocation.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/door/submit.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "runtime/transfer/transfer.hpp"

namespace heddle::rt {

/// A range of elements in a tensor's memory.
struct Piece {
  BufferView view;
  [[nodiscard]] std::int64_t count() const { return *view.type().num_elements(); }
  [[nodiscard]] Piece part(std::int64_t begin, std::int64_t some) const {
    const DType dtype = view.type().dtype;
    return {{view.buffer(),
             {dtype, {some}},
             view.offset() + static_cast<std::size_t>(begin) * size_of(dtype)}};
  }
};

[[nodiscard]] inline bool is_same(const Piece& a, const Piece& b) {
  return a.view.buffer() == b.view.buffer() && a.view.offset() == b.view.offset();
}

/// A tensor in several contexts, on different devices.
class Parties {
 public:
  Parties(const char* name, const Tensor& tensor, std::span<const Context> contexts)
      : name_(name), tensor_(tensor), contexts_(contexts) {
    if (contexts.empty()) refuse("needs a context at least");
    for (std::size_t k = 0; k < contexts.size(); ++k) {
      const Device device = contexts[k].device();
      for (std::size_t before = 0; before < k; ++before) {
        if (contexts[before].device() == device)
          refuse(fmt::format("has contexts {} and {} on one device, {}", before, k, device.name()));
      }
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return contexts_.size(); }
  [[nodiscard]] const Tensor& tensor() const noexcept { return tensor_; }
  void require_root(std::size_t root) const {
    if (root < size()) return;
    refuse(fmt::format("has root {} (expected below {}, the number of contexts)", root, size()));
  }
  /// Refuses unless `part` has the dtype of `whole`, and size() parts have the elements of `whole`.
  void require_parts(const Tensor& part, const Tensor& whole) const {
    const auto parts = static_cast<std::int64_t>(size());
    if (part.type().dtype == whole.type().dtype &&
        whole.num_elements() == parts * part.num_elements())
      return;
    refuse(fmt::format(
        "takes {} parts '{}' {} for '{}' {} (expected the same dtype, and as many "
        "elements)",
        parts, part.label(), part.type().to_string(), whole.label(), whole.type().to_string()));
  }

  /// The whole of a tensor in the k-th context.
  [[nodiscard]] Piece piece(std::size_t k, const Tensor& tensor) const {
    const BufferView view = contexts_[k].view(tensor);
    require_live({&view, Use::read, &tensor},
                 fmt::format("{} over context '{}'", name_, contexts_[k].label()));
    return Piece{view}.part(0, tensor.num_elements());
  }
  [[nodiscard]] std::vector<Piece> pieces(const Tensor& tensor) const {
    std::vector<Piece> all;
    for (std::size_t k = 0; k < size(); ++k) all.push_back(piece(k, tensor));
    return all;
  }
  /// Refuses overlapping pieces `a` and `b` of the contexts a_k and b_k.
  void require_apart(const Piece& a, std::size_t a_k, const Piece& b, std::size_t b_k) const {
    if (!overlap(a.view, b.view)) return;
    refuse(
        fmt::format("uses the same memory twice, in contexts {} and {} ({} and {}); give each "
                    "memory of its own",
                    a_k, b_k, contexts_[a_k].label(), contexts_[b_k].label()));
  }
  /// Refuses overlaps between the pieces of a tensor. Identical pieces are accepted if
  /// `may_coincide`.
  void require_apart(const std::vector<Piece>& all, bool may_coincide) const {
    for (std::size_t k = 0; k < all.size(); ++k) {
      for (std::size_t n = 0; n < k; ++n) {
        if (!may_coincide || !is_same(all[n], all[k])) require_apart(all[n], n, all[k], k);
      }
    }
  }
  /// Refuses overlaps between the pieces of two tensors.
  void require_apart(const std::vector<Piece>& a, const std::vector<Piece>& b) const {
    for (std::size_t k = 0; k < a.size(); ++k) {
      for (std::size_t n = 0; n < b.size(); ++n) require_apart(a[k], k, b[n], n);
    }
  }
  /// The k-th part may lie exactly in the k-th part of a whole; any different overlap is refused.
  void require_in_place(const std::vector<Piece>& parts, const std::vector<Piece>& wholes) const {
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const std::int64_t some = parts[k].count();
      for (std::size_t n = 0; n < wholes.size(); ++n) {
        if (!is_same(parts[k], wholes[n].part(some * static_cast<std::int64_t>(k), some)))
          require_apart(parts[k], k, wholes[n], n);
      }
    }
  }
  /// Tells whether every device reads the memory of the pieces in place.
  [[nodiscard]] bool share_memory(const std::vector<Piece>& all) const {
    return std::ranges::all_of(contexts_, [&](const Context& context) {
      return std::ranges::all_of(all, [&](const Piece& each) {
        return reaches(*Inside::of(context.device())->execution, *Inside::of(each.view.buffer()));
      });
    });
  }

 protected:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} of tensor '{}' {}", name_, tensor_.label(), why));
  }

  const char* const name_;
  const Tensor tensor_;
  const std::span<const Context> contexts_;
};

}  // namespace heddle::rt
