// See loop/scanner.hpp.
#include "jit/loop/scanner.hpp"

#include <algorithm>
#include <string>

#include "heddle/status.hpp"
#include "scheduler/threads/floating.hpp"

namespace heddle::jit {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

template <class T>
bool read(std::string_view digits, T& number) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size();
}

}  // namespace

void Scanner::fail(std::string_view expected) {
  skip(false);
  std::size_t line = 1;
  std::size_t start = 0;
  for (std::size_t k = 0; k < at_; ++k) {
    if (text_[k] == '\n') {
      ++line;
      start = k + 1;
    }
  }
  std::string found(text_.substr(at_, 20));
  found = found.substr(0, found.find('\n'));
  std::ranges::replace_if(found, [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} line {} column {}: expected {}, found '{}'", kind_, line,
                          at_ - start + 1, expected, found.empty() ? "end of line" : found));
}

void Scanner::skip(bool comments) {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else if (comments && c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else {
      return;
    }
  }
}

bool Scanner::accept(std::string_view token) {
  skip(true);
  if (!text_.substr(at_).starts_with(token)) return false;
  const std::size_t end = at_ + token.size();
  const bool whole_word = is_word(token.back()) && token != "-";
  if (whole_word && end < text_.size() && is_word(text_[end])) return false;
  at_ = end;
  return true;
}

std::uint32_t Scanner::id(char prefix, std::string_view what) {
  skip(true);
  if (at_ + 1 >= text_.size() || text_[at_] != prefix) fail(what);
  ++at_;
  if (text_[at_] < '0' || text_[at_] > '9') fail(what);
  return number<std::uint32_t>(what);
}

bool Scanner::sees_id(char prefix) {
  skip(true);
  return at_ + 1 < text_.size() && text_[at_] == prefix && text_[at_ + 1] >= '0' &&
         text_[at_ + 1] <= '9';
}

std::string_view Scanner::word() {
  skip(true);
  std::size_t end = at_;
  while (end < text_.size() && is_word(text_[end])) ++end;
  return text_.substr(at_, end - at_);
}

DType Scanner::dtype() {
  const std::string_view text = word();
  const auto t = parse_dtype(text);
  if (!t) fail("a dtype such as f32");
  at_ += text.size();
  return *t;
}

Dims Scanner::extents() {
  Dims dims;
  while (!accept("]")) {
    if (!dims.empty()) expect(",");
    dims.push_back(number<std::int64_t>("an extent"));
  }
  return dims;
}

Scalar Scanner::scalar() {
  skip(true);
  const std::size_t colon = text_.find(':', at_);
  const std::string_view digits =
      text_.substr(at_, colon == std::string_view::npos ? 0 : colon - at_);
  const std::size_t start = at_;
  if (digits.empty() || digits.size() > 64) fail("a constant such as 1:f32");
  at_ = colon + 1;
  const DType t = dtype();
  const std::size_t end = at_;
  at_ = start;  // for messages
  Scalar scalar;
  if (is_floating(t)) {
    const sched::DefaultFloating floating;
    double number = 0;
    if (!read(digits, number)) fail(fmt::format("a {} constant", name(t)));
    scalar = Scalar::of_float(t, number);
    if (t != DType::f64) {
      // The shortest digits are those of a binary32: parsed as binary32 directly, they are rounded
      // once.
      float narrow = 0;
      if (read(digits, narrow)) scalar = Scalar::of_float(t, narrow);
    }
  } else if (t == DType::u64) {
    std::uint64_t number = 0;
    if (!read(digits, number)) fail("a u64 constant");
    scalar = Scalar::of_int(t, static_cast<std::int64_t>(number));
  } else {
    std::int64_t number = 0;
    if (!read(digits, number) || Scalar::of_int(t, number).i != number)
      fail(fmt::format("a {} constant", name(t)));
    scalar = Scalar::of_int(t, number);
  }
  at_ = end;
  return scalar;
}

}  // namespace heddle::jit
