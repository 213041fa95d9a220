// Giving (the donation plan of a link): which tensors of a routine take the memory of donated
// tensors at the launch, as LinkOptions::donate asks. Decided by the link, then constant; any
// thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "heddle/status.hpp"
#include "runtime/context/context_state.hpp"

namespace heddle::rt {

class Giving {
 public:
  /// Entries of the signature.
  struct Pair {
    std::size_t from, to;
    BufferView view;  ///< of the giver
  };

  /// `prior`: the contents of the context in which the code is linked. Throws where a tensor cannot
  /// be donated, naming the tensor. The code must outlive this object.
  Giving(const ContextState& context, const Contents& prior, const Code& code,
         const std::vector<Tensor>& donate);

  [[nodiscard]] bool empty() const noexcept { return pairs_.empty(); }
  /// The pair in which the entry gives (from) or takes (to) memory; null: there is none.
  [[nodiscard]] const Pair* from(std::size_t entry) const noexcept;
  [[nodiscard]] const Pair* to(std::size_t entry) const noexcept;
  /// The taker's view of the memory, promised until the launch.
  [[nodiscard]] BufferView promise(const Pair& pair) const;
  [[nodiscard]] bool pairs(std::size_t a, std::size_t b) const noexcept;
  /// The access that launches declare for the entry: `access`, or the hand-over of the memory where
  /// the entry gives.
  [[nodiscard]] Access told(Access access, std::size_t entry, const Linked& linked) const;
  /// Refuses a donated tensor that shares memory with another entry, as the new values would
  /// overwrite that entry.
  void check(const std::vector<std::optional<BufferView>>& entries) const;
  /// Takes the donated tensors out of the contents of the routine's context.
  void hide(Contents& contents) const;

 private:
  [[nodiscard]] bool is_new(const Contents& prior, std::size_t entry) const;
  void require_donatable(const Tensor& tensor, const BufferView& view) const;
  [[noreturn]] void refuse(ErrorCode code, const Tensor& tensor, std::string_view why) const;

  const Code& code_;
  std::vector<Pair> pairs_;
};

}  // namespace heddle::rt
