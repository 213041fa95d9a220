// Status, Error and the error codes: how every floor of heddle says that something went wrong.
// Owns no state; every function here may be called from any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#pragma GCC visibility push(default)
namespace heddle {

/// The kind of a failure, coarse enough to act on. Stable: values are never reused.
enum class ErrorCode : std::uint8_t {
  ok = 0,
  invalid_argument,     ///< the call itself is wrong, whatever the state
  failed_precondition,  ///< the call is fine, the state of its object is not (finalised, closed,
                        ///< own ticket)
  not_found,            ///< a named thing does not exist (tensor in a context, host storage)
  unavailable,     ///< cannot be had here or now (backend not built in, forked child, shut down)
  exhausted,       ///< a bound was reached: queue slots, memory
  deadline,        ///< a time limit passed first
  compile_failed,  ///< a compiler refused or died; one that hangs gives `deadline`
  device_failed,   ///< a task on a device failed; the device is poisoned
  cancelled,       ///< ended before it ran, or its wait did, because somebody asked it to
  internal,        ///< heddle's own fault
};

/// The name of a code as it appears in messages, e.g. "invalid_argument".
constexpr std::string_view name(ErrorCode code) noexcept {
  constexpr std::string_view names[] = {"ok",        "invalid_argument", "failed_precondition",
                                        "not_found", "unavailable",      "exhausted",
                                        "deadline",  "compile_failed",   "device_failed",
                                        "cancelled", "internal"};
  const auto at = static_cast<std::size_t>(code);
  return at < std::size(names) ? names[at] : std::string_view("unknown");
}

/// A code, a message that names the culprit, where in heddle it was raised, and what caused it.
///
/// An ok Status is one null pointer; copying a failed one shares its text, so a Status may be kept
/// by a device, by each of its events and by every waiter. Immutable, hence safe to share between
/// threads. Causes may form a chain of any length: no function here nests as deep.
class Status {
 public:
  Status() noexcept = default;

  /// Never throws: when there is no memory to keep the text, the code survives, with the message
  /// "out of memory".
  Status(ErrorCode code, std::string message, Status cause = {},
         std::source_location where = std::source_location::current()) noexcept
      : Status(code, [&message] { return std::move(message); }, std::move(cause), where) {}
  Status(ErrorCode code, const char* message, Status cause = {},
         std::source_location where = std::source_location::current()) noexcept
      : Status(code, [message] { return message; }, std::move(cause), where) {}
  /// With the text that `make` returns, so that nothing is thrown where there is no memory to make
  /// it either.
  template <class Make>
    requires std::is_invocable_r_v<std::string, const Make&>
  Status(ErrorCode code, const Make& make, Status cause = {},
         std::source_location where = std::source_location::current()) noexcept {
    if (code == ErrorCode::ok) return;
    try {
      Detail detail{code, make(), where};
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

  [[nodiscard]] bool ok() const noexcept { return detail_ == nullptr; }
  explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] ErrorCode code() const noexcept { return detail_ ? detail_->code : ErrorCode::ok; }
  /// The message alone, without code and causes; empty when ok.
  [[nodiscard]] std::string_view message() const noexcept {
    return detail_ ? std::string_view(detail_->message) : std::string_view();
  }
  /// The place in heddle that raised it. Where a task was submitted, when recorded, is in the
  /// message.
  [[nodiscard]] std::source_location where() const noexcept {
    return detail_ ? detail_->where : std::source_location();
  }
  /// The failure behind this one; ok when there is none.
  [[nodiscard]] Status cause() const noexcept {
    Status inner;
    if (detail_) inner.detail_ = detail_->cause;
    return inner;
  }
  /// The exception that a user's callable threw, when that is what failed; else null.
  [[nodiscard]] std::exception_ptr exception() const noexcept {
    return detail_ ? detail_->exception : nullptr;
  }
  /// A copy that carries the user's exception, so that a host can rethrow it.
  [[nodiscard]] Status with_exception(std::exception_ptr exception) const noexcept {
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
  /// The innermost cause: what a user has to mend.
  [[nodiscard]] Status root() const noexcept {
    Status root = *this;
    if (detail_ && detail_->root) root.detail_ = detail_->root;
    return root;
  }
  /// The number of causes behind this one, one behind the other. Failures that go from device to
  /// device have 64 at most: a longer chain is cut down to its root, and grows from there.
  [[nodiscard]] std::size_t causes() const noexcept { return detail_ ? detail_->causes : 0; }

  /// "code: message" and one line "  cause: ..." for each cause. A long chain is cut: the first few
  /// causes, how many are left out, and the innermost.
  [[nodiscard]] std::string to_string() const {
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

  /// Same code and text (causes included); two ok statuses are equal.
  friend bool operator==(const Status& a, const Status& b) noexcept {
    const Detail *left = a.detail_.get(), *right = b.detail_.get();
    for (; left != right; left = left->cause.get(), right = right->cause.get()) {
      if (left == nullptr || right == nullptr || left->causes != right->causes ||
          left->code != right->code || left->message != right->message) {
        return false;
      }
    }
    return true;
  }

 private:
  struct Detail {
    ErrorCode code;
    std::string message;
    std::source_location where;
    std::shared_ptr<const Detail> cause{};
    std::shared_ptr<const Detail> root{};  // the innermost cause; null: this one
    std::size_t causes = 0;
    std::exception_ptr exception{};
    Detail* next_to_free = nullptr;
  };

  static std::shared_ptr<const Detail> keep(Detail detail) {
    return {new Detail(std::move(detail)), &Status::free};
  }
  /// What is freed may hold the last reference to another: its cause, or that in its exception.
  /// That one waits until this one is gone, however long the chain.
  static void free(Detail* detail) noexcept {
    thread_local Detail* first = nullptr;
    thread_local bool freeing = false;
    detail->next_to_free = std::exchange(first, detail);
    if (freeing) return;
    freeing = true;
    while (first != nullptr) delete std::exchange(first, first->next_to_free);
    freeing = false;
  }

  /// Takes no memory: the text fits into the string itself, and nobody counts who holds it. Never
  /// destroyed, so it may be handed out during exit.
  static std::shared_ptr<const Detail> without_text(ErrorCode code) noexcept {
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

  std::shared_ptr<const Detail> detail_;
};

/// What the throwing floors (jit, runtime, public C++ API) throw: a Status plus what was being
/// done.
class Error : public std::exception {
 public:
  explicit Error(Status status)
      : status_(std::move(status)), text_("heddle: " + status_.to_string()) {}
  Error(ErrorCode code, std::string message, Status cause = {},
        std::source_location where = std::source_location::current())
      : Error(Status(code, std::move(message), std::move(cause), where)) {}

  [[nodiscard]] const Status& status() const noexcept { return status_; }
  [[nodiscard]] ErrorCode code() const noexcept { return status_.code(); }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  Status status_;
  std::string text_;
};

/// Throws Error when `status` is a failure: the border between the two error regimes.
inline void throw_if_failed(const Status& status) {
  if (!status.ok()) throw Error(status);
}

}  // namespace heddle
#pragma GCC visibility pop
