// See program_file.hpp. Recursive descent over one line at a time.
#include "tools/explain/program_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "files/ascii.hpp"
#include "heddle/status.hpp"
#include "tools/explain/operations.hpp"

namespace heddle::tools {
namespace {

/// Operators and calls nest at most this deep, so that no file exhausts the stack.
constexpr int depth_max = 200;

struct Word {
  enum class Kind { name, integer, number, symbol, end } kind = Kind::end;
  std::string_view text = "end of line";
};

/// Splits a line into words; a # begins a comment.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line.substr(0, line.find('#'))) { next(); }
  [[nodiscard]] const Word& now() const { return now_; }
  Word take() {
    const Word taken = now_;
    next();
    return taken;
  }

 private:
  void next() {
    while (!rest_.empty() && files::is_space(rest_[0])) rest_.remove_prefix(1);
    now_ = {};
    if (rest_.empty()) return;
    const auto is_word = [](char c) { return files::is_letter_or_digit(c) || c == '_'; };
    std::size_t length = 0;
    Word::Kind kind = Word::Kind::symbol;
    if (files::is_digit(rest_[0])) {
      kind = Word::Kind::integer;
      for (; length < rest_.size(); ++length) {
        const char c = rest_[length];
        const bool sign = (c == '+' || c == '-') && (rest_[length - (length > 0)] | 0x20) == 'e';
        if (!is_word(c) && c != '.' && !sign) break;
        if (!files::is_digit(c)) kind = Word::Kind::number;
      }
    } else if (is_word(rest_[0])) {
      kind = Word::Kind::name;
      while (length < rest_.size() && is_word(rest_[length])) ++length;
    } else {
      constexpr std::array doubles{
          "+=", "-=", "*=", "/=", "&=", "|=", "==", "!=", "<=", ">=", "&&", "||"};
      length = 1;
      for (const std::string_view symbol : doubles) {
        if (rest_.starts_with(symbol)) length = 2;
      }
    }
    now_ = {kind, rest_.substr(0, length)};
    rest_.remove_prefix(length);
  }

  std::string_view rest_;
  Word now_;
};

class Parser {
 public:
  explicit Parser(std::string_view name)
      : file_(name), program_(std::filesystem::path(name).stem().string()) {}

  Program parse(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      ++line_;
      parse_line(text.substr(0, end));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    if (program_.empty()) fail("no statement (expected at least one, such as y(i) = 2 * x(i))");
    return std::move(program_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}:{}: {}", file_, std::max<std::size_t>(line_, 1), what));
  }
  [[noreturn]] void expected(std::string_view what) const {
    fail(fmt::format("found '{}' (expected {})", words_->now().text, what));
  }
  [[nodiscard]] bool at(std::string_view symbol) const { return words_->now().text == symbol; }
  bool take_if(std::string_view symbol) {
    if (!at(symbol)) return false;
    words_->take();
    return true;
  }
  void need(std::string_view symbol) {
    if (!take_if(symbol)) expected(fmt::format("'{}'", symbol));
  }
  std::string need_name(std::string_view what) {
    if (words_->now().kind != Word::Kind::name) expected(what);
    return std::string(words_->take().text);
  }
  std::int64_t need_integer(std::string_view what) {
    std::int64_t value = 0;
    const std::string_view text = words_->now().text;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (words_->now().kind != Word::Kind::integer || error != std::errc())
      expected(fmt::format("{}, an integer below 2^63", what));
    words_->take();
    return value;
  }

  void parse_line(std::string_view line) {
    words_.emplace(line);
    if (words_->now().kind == Word::Kind::end) return;
    indices_.clear();
    depth_ = 0;
    const std::string first = need_name("a tensor, 'tensor', 'static' or 'index'");
    try {
      if (first == "tensor" && !at("(")) {
        tensor();
      } else if (first == "static" && !at("(")) {
        static_index();
      } else if (first == "index" && !at("(")) {
        sized_index();
      } else {
        program_ << statement(first);
      }
    } catch (const Error& error) {
      if (error.status().message().starts_with(file_)) throw;
      fail(error.status().message());
    }
    if (words_->now().kind != Word::Kind::end) expected("the end of the line");
  }

  void tensor() {
    const std::string name = need_name("a name");
    declare(name);
    const std::string type = need_name("a dtype");
    const auto dtype = parse_dtype(type);
    if (!dtype) fail(fmt::format("no dtype '{}' (expected f32, i64, ...)", type));
    Dims dims;
    need("[");
    while (!at("]")) {
      dims.push_back(need_integer("an extent"));
      if (!take_if(",")) break;
    }
    need("]");
    tensors_.emplace(name, Tensor(name, *dtype, std::move(dims)));
  }
  void static_index() {
    const std::string name = need_name("a name");
    declare(name);
    statics_.emplace(name, StaticIndex(name, need_integer("its range")));
  }
  void sized_index() {
    const std::string name = need_name("a name");
    declare(name);
    sized_.emplace(name, Index(name, need_integer("its extent")));
  }
  void declare(const std::string& name) const {
    if (tensors_.contains(name) || statics_.contains(name) || sized_.contains(name))
      fail(fmt::format("'{}' is declared twice", name));
  }

  const Tensor& known(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
      fail(fmt::format("no tensor '{}' (expected a line 'tensor {} f32[...]' before)", name, name));
    return found->second;
  }

  Statement statement(const std::string& name) {
    const Tensor& target = known(name);
    const Access access = target.at(subscripts());
    const std::string_view how = words_->take().text;
    if (how == "=") {
      if (const auto found = reductions().find(words_->now().text); found != reductions().end()) {
        words_->take();
        need("(");
        const Expr value = expression();
        need(")");
        return access = found->second(value);
      }
      return access = expression();
    }
    if (how == "+=") return access += expression();
    if (how == "-=") return access -= expression();
    if (how == "*=") return access *= expression();
    if (how == "/=") return access /= expression();
    if (how == "&=") return access &= expression();
    if (how == "|=") return access |= expression();
    fail(fmt::format("found '{}' (expected =, +=, -=, *=, /=, &= or |=)", how));
  }

  std::vector<Subscript> subscripts() {
    std::vector<Subscript> result;
    need("(");
    while (!at(")")) {
      result.push_back(subscript());
      if (!take_if(",")) break;
    }
    need(")");
    return result;
  }
  Subscript subscript() {
    Subscript sum = term(take_if("-") ? -1 : 1);
    while (at("+") || at("-")) {
      const std::int64_t sign = words_->take().text == "-" ? -1 : 1;
      sum = sum + term(sign);
    }
    return sum;
  }
  Subscript term(std::int64_t factor) {
    if (words_->now().text == "at") {
      words_->take();
      if (!at("(")) return factor * index_named("at");
      words_->take();
      const Subscript position = heddle::at(expression());
      need(")");
      return factor * position;
    }
    if (words_->now().kind == Word::Kind::integer) {
      const std::int64_t number = factor * need_integer("a factor");
      return take_if("*") ? number * index() : Subscript(number);
    }
    const Subscript alone = index();
    return (take_if("*") ? factor * need_integer("a factor") : factor) * alone;
  }
  Subscript index() { return index_named(need_name("an index or an integer")); }
  Subscript index_named(const std::string& name) {
    if (const auto found = statics_.find(name); found != statics_.end()) return found->second;
    if (const auto found = sized_.find(name); found != sized_.end()) return found->second;
    return indices_.try_emplace(name, name).first->second;
  }

  Expr expression(int precedence = 1) {
    if (++depth_ > depth_max) fail(fmt::format("nested deeper than {}", depth_max));
    Expr left = unary();
    while (true) {
      const Operator* found = nullptr;
      for (const Operator& each : operators()) {
        if (at(each.symbol) && each.precedence >= precedence) found = &each;
      }
      if (found == nullptr) break;
      words_->take();
      left = found->make(left, expression(found->precedence + 1));
    }
    --depth_;
    return left;
  }
  Expr unary() {
    if (take_if("-")) {
      if (words_->now().kind == Word::Kind::integer) return -need_integer("a number");
      if (words_->now().kind == Word::Kind::number) return -number();
      return -expression(7);
    }
    if (take_if("!")) return !expression(7);
    if (take_if("(")) {
      const Expr inner = expression();
      need(")");
      return inner;
    }
    switch (words_->now().kind) {
      case Word::Kind::integer:
        return need_integer("a number");
      case Word::Kind::number:
        return number();
      case Word::Kind::name:
        return named();
      default:
        expected("a value");
    }
  }
  double number() {
    const std::string_view text = words_->now().text;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) expected("a number");
    words_->take();
    return value;
  }
  Expr named() {
    const std::string name(words_->take().text);
    if (name == "true" || name == "false") return name == "true";
    if (!at("(")) return embedded(name);
    if (name == "merge") return merge_read();
    if (const auto found = tensors_.find(name); found != tensors_.end())
      return found->second.at(subscripts());
    return call(name);
  }
  Expr embedded(const std::string& name) {
    if (tensors_.contains(name)) expected("'('");
    return embed(index_named(name));
  }
  Expr merge_read() {
    need("(");
    const Tensor tensor = known(need_name("a tensor"));
    need(")");
    return merge(tensor).at(subscripts());
  }
  Expr call(const std::string& name) {
    std::vector<Expr> args;
    need("(");
    do args.push_back(expression());
    while (take_if(","));
    need(")");
    const auto arity = [&](std::size_t count) {
      if (args.size() != count)
        fail(fmt::format("{} arguments of {} (expected {})", args.size(), name, count));
    };
    if (const auto found = unary_calls().find(name); found != unary_calls().end()) {
      arity(1);
      return found->second(args[0]);
    }
    if (const auto found = binary_calls().find(name); found != binary_calls().end()) {
      arity(2);
      return found->second(args[0], args[1]);
    }
    if (const auto found = ternary_calls().find(name); found != ternary_calls().end()) {
      arity(3);
      return found->second(args[0], args[1], args[2]);
    }
    if (const auto dtype = parse_dtype(name)) {
      arity(1);
      return cast(args[0], *dtype);
    }
    if (reductions().contains(name))
      fail(fmt::format("{}() reduces a whole right side: t(i) = {}(...)", name, name));
    fail(fmt::format("neither a tensor nor an operation: '{}'", name));
  }

  std::string file_;
  std::size_t line_ = 0;
  Program program_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, StaticIndex> statics_;
  std::map<std::string, Index> sized_;
  // State of the current line.
  std::optional<Words> words_;
  std::map<std::string, Index> indices_;
  int depth_ = 0;
};

}  // namespace

Program parse_program(std::string_view name, std::string_view text) {
  return Parser(name).parse(text);
}

}  // namespace heddle::tools
