// Status, Error and the error codes: how every floor of heddle reports failures. Every function
// here may be called from any thread. The code and data of a Status or Error are the library's own,
// so both outlive the plugin that made them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "heddle/requires.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// The kind of a failure, coarse enough to act on. Stable: values are never reused.
enum class ErrorCode : std::uint8_t {
  ok = 0,
  invalid_argument,     ///< the call itself is wrong, in any state
  failed_precondition,  ///< the object's state forbids the call (finalised, closed, own ticket)
  not_found,            ///< a named object does not exist (tensor in a context, host storage)
  unavailable,     ///< not available here or now (backend not built in, forked child, shut down)
  exhausted,       ///< a bound was reached: queue slots, memory
  deadline,        ///< a time limit passed first
  compile_failed,  ///< a compiler refused or died; a hanging compiler gives `deadline`
  device_failed,   ///< a task on a device failed; the device is poisoned
  cancelled,       ///< ended before running, or its wait ended, because of a request
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

/// A code, a message that names the culprit, the place in heddle that raised the failure, and the
/// cause.
///
/// An ok Status is one null pointer; copies of a failed Status share the text, so a device, its
/// events and every waiter may keep the Status. Immutable, hence safe to share between threads.
/// Causes may form a chain of any length: no function here recurses along the chain.
class Status {
 public:
  Status() noexcept = default;

  /// Never throws: without memory for the text, the code survives, with the message "out of
  /// memory".
  Status(ErrorCode code, std::string message, Status cause = {},
         std::source_location where = std::source_location::current()) noexcept
      : Status(code, [&message] { return std::move(message); }, std::move(cause), where) {}
  Status(ErrorCode code, const char* message, Status cause = {},
         std::source_location where = std::source_location::current()) noexcept
      : Status(code, [message] { return message; }, std::move(cause), where) {}
  /// With the text that `make` returns; does not throw either if there is no memory to make the
  /// text.
  template <class Make>
    requires std::is_invocable_r_v<std::string, const Make&>
  Status(ErrorCode code, const Make& make, Status cause = {},
         std::source_location where = std::source_location::current()) noexcept
      : Status(
            code, [](const void* of) -> std::string { return (*static_cast<const Make*>(of))(); },
            &make, std::move(cause), where) {}

  [[nodiscard]] bool ok() const noexcept { return detail_ == nullptr; }
  explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] ErrorCode code() const noexcept { return detail_ ? detail_->code : ErrorCode::ok; }
  /// The message without code and causes; empty when ok.
  [[nodiscard]] std::string_view message() const noexcept {
    return detail_ ? std::string_view(detail_->message) : std::string_view();
  }
  /// The place in heddle that raised the failure. The place of a task's submission, when recorded,
  /// is in the message.
  [[nodiscard]] std::source_location where() const noexcept {
    return detail_ ? detail_->where : std::source_location();
  }
  /// The failure behind this one; ok when there is none.
  [[nodiscard]] Status cause() const noexcept {
    Status inner;
    if (detail_) inner.detail_ = detail_->cause;
    return inner;
  }
  /// The exception of a user's callable, if the failure came from an exception; otherwise null.
  [[nodiscard]] std::exception_ptr exception() const noexcept {
    return detail_ ? detail_->exception : nullptr;
  }
  /// A copy that carries the user's exception, which lets a host rethrow the exception.
  [[nodiscard]] Status with_exception(std::exception_ptr exception) const noexcept;
  /// The innermost cause: the failure that a user must fix.
  [[nodiscard]] Status root() const noexcept {
    Status root = *this;
    if (detail_ && detail_->root) root.detail_ = detail_->root;
    return root;
  }
  /// The length of the chain of causes. A failure passed from device to device has at most 64
  /// causes: a longer chain is cut down to its root, and grows again from there.
  [[nodiscard]] std::size_t causes() const noexcept { return detail_ ? detail_->causes : 0; }

  /// "code: message" and one line "  cause: ..." per cause. A long chain is cut: the first few
  /// causes, the number of causes left out, and the innermost cause.
  [[nodiscard]] std::string to_string() const;

  /// True if codes and texts are the same (causes included); two ok statuses are equal.
  bool operator==(const Status& other) const noexcept;

 private:
  struct Detail {
    ErrorCode code;
    std::string message;
    std::source_location where;
    std::shared_ptr<const Detail> cause{};
    std::shared_ptr<const Detail> root{};  // the innermost cause; null: this status itself
    std::size_t causes = 0;
    std::exception_ptr exception{};
    Detail* next_to_free = nullptr;
  };

  Status(ErrorCode code, std::string (*make)(const void* of), const void* of, Status cause,
         std::source_location where) noexcept;
  static std::shared_ptr<const Detail> keep(Detail detail);
  static void free(Detail* detail) noexcept;
  static std::shared_ptr<const Detail> without_text(ErrorCode code) noexcept;

  std::shared_ptr<const Detail> detail_;
};

/// The exception of the throwing floors (jit, runtime, public C++ API): a Status and the operation
/// that failed.
class Error : public std::exception {
 public:
  explicit Error(Status status);
  Error(ErrorCode code, std::string message, Status cause = {},
        std::source_location where = std::source_location::current())
      : Error(Status(code, std::move(message), std::move(cause), where)) {}
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;
  ~Error() override;

  [[nodiscard]] const Status& status() const noexcept { return status_; }
  [[nodiscard]] ErrorCode code() const noexcept { return status_.code(); }
  [[nodiscard]] const char* what() const noexcept override;

 private:
  Status status_;
  std::string text_;
};

/// Throws Error if `status` is a failure: the border between the two error regimes.
void throw_if_failed(const Status& status);

}  // namespace heddle
#pragma GCC visibility pop
