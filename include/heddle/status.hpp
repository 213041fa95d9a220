// Status, Error and the error codes: how every floor of heddle says that something went wrong.
// Every function here may be called from any thread. Whatever a Status or Error consists of is the
// library's own code and data, so that they outlive the plugin that made them.
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
         std::source_location where = std::source_location::current()) noexcept
      : Status(
            code, [](const void* of) -> std::string { return (*static_cast<const Make*>(of))(); },
            &make, std::move(cause), where) {}

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
  [[nodiscard]] Status with_exception(std::exception_ptr exception) const noexcept;
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
  [[nodiscard]] std::string to_string() const;

  /// Same code and text (causes included); two ok statuses are equal.
  bool operator==(const Status& other) const noexcept;

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

  Status(ErrorCode code, std::string (*make)(const void* of), const void* of, Status cause,
         std::source_location where) noexcept;
  static std::shared_ptr<const Detail> keep(Detail detail);
  static void free(Detail* detail) noexcept;
  static std::shared_ptr<const Detail> without_text(ErrorCode code) noexcept;

  std::shared_ptr<const Detail> detail_;
};

/// What the throwing floors (jit, runtime, public C++ API) throw: a Status plus what was being
/// done.
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

/// Throws Error when `status` is a failure: the border between the two error regimes.
void throw_if_failed(const Status& status);

}  // namespace heddle
#pragma GCC visibility pop
