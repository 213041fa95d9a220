// See heddle/status.hpp.
#include "heddle/status.hpp"

#include <algorithm>
#include <new>

namespace heddle {

Status::Status(ErrorCode code, std::string (*make)(const void* of), const void* of, Status cause,
               std::source_location where) noexcept {
  if (code == ErrorCode::ok) return;
  try {
    Detail detail{code, make(of), where};
    if (cause.detail_) {
      detail.causes = cause.detail_->causes + 1;
      detail.root = cause.root().detail_;
      detail.cause = std::move(cause.detail_);
    }
    detail_ = keep(std::move(detail));
  } catch (...) {
    detail_ = without_text(code);
  }
}

Status Status::with_exception(std::exception_ptr exception) const noexcept {
  if (!detail_) return {};
  Status copy;
  try {
    Detail detail = *detail_;
    detail.exception = std::move(exception);
    copy.detail_ = keep(std::move(detail));
  } catch (...) {
    copy.detail_ = detail_;
  }
  return copy;
}

std::string Status::to_string() const {
  if (!detail_) return "ok";
  std::string text;
  const auto add = [&text](const Detail& one) {
    if (!text.empty()) text += "\n  cause: ";
    text += name(one.code);
    text += ": ";
    text += one.message;
  };
  constexpr std::size_t shown_max = 8;
  const Detail* at = detail_.get();
  for (std::size_t shown = 0; at != nullptr; at = at->cause.get()) {
    if (++shown == shown_max && at->causes > 1) {
      text += "\n  ... " + std::to_string(at->causes) + " more causes ...";
      at = at->root.get();
    }
    add(*at);
  }
  return text;
}

bool Status::operator==(const Status& other) const noexcept {
  const Detail *left = detail_.get(), *right = other.detail_.get();
  for (; left != right; left = left->cause.get(), right = right->cause.get()) {
    if (left == nullptr || right == nullptr || left->causes != right->causes ||
        left->code != right->code || left->message != right->message) {
      return false;
    }
  }
  return true;
}

std::shared_ptr<const Status::Detail> Status::keep(Detail detail) {
  return {new Detail(std::move(detail)), &Status::free};
}

/// A freed detail may own the last reference to another detail: its cause, or a status in its
/// exception. That detail is freed after this function's loop frees the current detail, so a chain
/// of any length needs no recursion.
void Status::free(Detail* detail) noexcept {
  thread_local Detail* first = nullptr;
  thread_local bool freeing = false;
  detail->next_to_free = std::exchange(first, detail);
  if (freeing) return;
  freeing = true;
  while (first != nullptr) delete std::exchange(first, first->next_to_free);
  freeing = false;
}

/// Allocates no memory: the text fits into the string itself, and the pointer has no reference
/// count. Never destroyed, so it may be returned during exit.
std::shared_ptr<const Status::Detail> Status::without_text(ErrorCode code) noexcept {
  constexpr std::size_t codes = static_cast<std::size_t>(ErrorCode::internal) + 1;
  alignas(Detail) static unsigned char bytes[codes][sizeof(Detail)];
  static const bool made = [] {
    for (std::size_t k = 0; k < codes; ++k) {
      ::new (static_cast<void*>(bytes[k]))
          Detail{static_cast<ErrorCode>(k), "out of memory", std::source_location::current()};
    }
    return true;
  }();
  static_cast<void>(made);
  const auto at = std::min(static_cast<std::size_t>(code), codes - 1);
  return {std::shared_ptr<const Detail>(),
          std::launder(reinterpret_cast<const Detail*>(bytes[at]))};
}

Error::Error(Status status) : status_(std::move(status)), text_("heddle: " + status_.to_string()) {}
Error::~Error() = default;
const char* Error::what() const noexcept { return text_.c_str(); }

void throw_if_failed(const Status& status) {
  if (!status.ok()) throw Error(status);
}

}  // namespace heddle
