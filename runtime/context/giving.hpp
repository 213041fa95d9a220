// Giving: which tensors of a routine take the memory of which others when it is scheduled, as
// LinkOptions::donate asks. Decided when it is linked, and constant; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "heddle/status.hpp"
#include "runtime/context/context_state.hpp"

namespace heddle::rt {

/// Whether an entry is a tensor with memory in a context.
[[nodiscard]] bool is_stored(const jit::CodeData& code, std::size_t entry) noexcept;
/// That of a tensor; nullopt: the code does not use it.
[[nodiscard]] std::optional<std::size_t> entry_of(const jit::CodeData& code, const Tensor& tensor);

class Giving {
 public:
  /// Entries of the signature.
  struct Pair {
    std::size_t from, to;
    BufferView view;  ///< of the one that gives
  };

  /// `prior`: what the context holds that the code is linked in. Throws where one cannot be given,
  /// naming it. The code outlives it.
  Giving(const ContextState& context, const Contents& prior, const Code& code,
         const std::vector<Tensor>& donate);

  [[nodiscard]] bool empty() const noexcept { return pairs_.empty(); }
  /// Null where the entry does not give, or take, memory.
  [[nodiscard]] const Pair* from(std::size_t entry) const noexcept;
  [[nodiscard]] const Pair* to(std::size_t entry) const noexcept;
  /// The view of one that takes: of the same memory, which it will have.
  [[nodiscard]] BufferView promise(const Pair& pair) const;
  [[nodiscard]] bool pairs(std::size_t a, std::size_t b) const noexcept;
  /// What launches state for the entry, which would be `access`: that they hand over its memory, if
  /// it gives that.
  [[nodiscard]] Access told(Access access, std::size_t entry, const Linked& linked) const;
  /// What is given is nobody else's: another tensor that shares it would find it overwritten.
  void check(const std::vector<std::optional<BufferView>>& entries) const;
  /// Those that give are not in the context of the routine.
  void hide(Contents& contents) const;

 private:
  [[nodiscard]] bool is_new(const Contents& prior, std::size_t entry) const;
  void require_donatable(const Tensor& tensor, const BufferView& view) const;
  [[noreturn]] void refuse(ErrorCode code, const Tensor& tensor, std::string_view why) const;

  const Code& code_;
  std::vector<Pair> pairs_;
};

}  // namespace heddle::rt
