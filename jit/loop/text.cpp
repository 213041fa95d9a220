// Printing of loop kernels and the hash of their text. The parser is loop/parse.cpp.
#include "jit/loop/text.hpp"

#include <blake2.h>
#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "heddle/status.hpp"
#include "jit/system/limits.hpp"
#include "scheduler/threads/floating.hpp"

namespace heddle::jit {
namespace {

std::string_view role_name(Role role) {
  switch (role) {
    case Role::input:
      return "input";
    case Role::output:
      return "output";
    case Role::inout:
      return "inout";
    case Role::merge:
      return "merge";
    case Role::scratch:
      return "scratch";
  }
  return "unknown";
}

std::string_view mark_name(LoopMark mark) {
  switch (mark) {
    case LoopMark::serial:
      return "for";
    case LoopMark::parallel:
      return "parallel";
    case LoopMark::unroll:
      return "unroll";
    case LoopMark::lanes:
      return "lanes";
    case LoopMark::block:
      return "block";
  }
  return "unknown";
}

class LoopPrinter {
 public:
  explicit LoopPrinter(bool comments) : comments_(comments) {}

  std::string print(const Loop& loop, const LoopNames* names) {
    text_ = "heddle-loop 1\n";
    for (std::size_t k = 0; k < loop.buffers.size(); ++k) {
      put("buffer t{} {} {}", k, role_name(loop.buffers[k].role), loop.buffers[k].type.to_string());
      name(names == nullptr ? nullptr : &names->buffers, k);
    }
    for (std::size_t k = 0; k < loop.statics.size(); ++k) {
      put("static s{}", k);
      if (loop.statics[k].range) put(" range {}", *loop.statics[k].range);
      name(names == nullptr ? nullptr : &names->statics, k);
    }
    text_ += "kernel {\n";
    block(loop.body, 1);
    text_ += "}\n";
    return std::move(text_);
  }

 private:
  // Not inlined: its buffers would be in every frame of deeply nested values.
  template <class... A>
  [[gnu::noinline]] void put(fmt::format_string<A...> format, A&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<A>(args)...);
  }

  /// A user's name as a comment, kept to one line.
  void name(const std::vector<std::string>* names, std::size_t k) {
    if (names != nullptr && k < names->size()) put("  # {}", one_line((*names)[k]));
    text_ += '\n';
  }

  static std::string one_line(std::string text) {
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    }
    return text;
  }

  void block(const Block& body, std::size_t depth) {
    for (const StmtPtr& stmt : body) statement(*stmt, depth);
  }

  void statement(const Stmt& stmt, std::size_t depth) {
    count_step();
    if (stmt.kind == StmtKind::comment && !comments_) return;
    text_.append(2 * depth, ' ');
    switch (stmt.kind) {
      case StmtKind::comment:
        put("# {}", one_line(stmt.text));
        break;
      case StmtKind::loop:
        put("{} i{} in {}..{} {{\n", mark_name(stmt.mark), stmt.var, stmt.from, stmt.to);
        block(stmt.body, depth + 1);
        text_.append(2 * depth, ' ');
        text_ += '}';
        break;
      case StmtKind::at:
        put("{} i{} in {}..{} = ", stmt.nearest ? "nearest" : "at", stmt.var, stmt.from, stmt.to);
        value(*stmt.value);
        text_ += " {\n";
        block(stmt.body, depth + 1);
        text_.append(2 * depth, ' ');
        text_ += '}';
        break;
      case StmtKind::zero:
        put("zero t{}", stmt.buffer);
        break;
      case StmtKind::prefetch:
        text_ += stmt.next == Prefetch::store        ? "prefetchw "
                 : stmt.next == Prefetch::load_later ? "prefetch2 "
                                                     : "prefetch ";
        cell('t', stmt.buffer, stmt.subscripts);
        break;
      case StmtKind::store:
        if (stmt.stream) text_ += "stream ";
        cell('t', stmt.buffer, stmt.subscripts);
        text_ += stmt.atomic ? " atomically= " : " = ";
        value(*stmt.value);
        break;
      case StmtKind::declare:
        put("let x{}: {}", stmt.local,
            stmt.dims.empty() ? std::string(heddle::name(stmt.value->dtype))
                              : ArrayType{stmt.value->dtype, stmt.dims}.to_string());
        text_ += " = ";
        value(*stmt.value);
        break;
      case StmtKind::assign:
        local(stmt.local, stmt.subscripts);
        text_ += " = ";
        value(*stmt.value);
        break;
    }
    text_ += '\n';
  }

  void local(LocalId id, const std::vector<Affine>& subscripts) {
    if (subscripts.empty()) {
      put("x{}", id);
    } else {
      cell('x', id, subscripts);
    }
  }

  void cell(char prefix, std::uint32_t id, const std::vector<Affine>& subscripts) {
    put("{}{}[", prefix, id);
    for (std::size_t k = 0; k < subscripts.size(); ++k) {
      if (k > 0) text_ += ", ";
      affine(subscripts[k]);
    }
    text_ += ']';
  }

  void affine(const Affine& a) {
    bool first = true;
    for (const AffineTerm& term : a.terms) {
      const bool minus = term.coefficient < 0;
      const auto size = minus ? 0u - static_cast<std::uint64_t>(term.coefficient)
                              : static_cast<std::uint64_t>(term.coefficient);
      text_ += first ? (minus ? "-" : "") : (minus ? " - " : " + ");
      if (size != 1) put("{}*", size);
      put("{}{}", term.kind == AffineTerm::Kind::loop ? 'i' : 's', term.id);
      first = false;
    }
    if (first) {
      put("{}", a.constant);
    } else if (a.constant > 0) {
      put(" + {}", a.constant);
    } else if (a.constant < 0) {
      put(" - {}", 0u - static_cast<std::uint64_t>(a.constant));
    }
  }

  void value(const Value& v) {
    count_step();
    switch (v.kind) {
      case ValueKind::constant:
        text_ += heddle::jit::print(v.scalar);
        break;
      case ValueKind::load:
        cell('t', v.buffer, v.subscripts);
        break;
      case ValueKind::local:
        local(v.local, v.subscripts);
        break;
      case ValueKind::embed:
        text_ += "index(";
        affine(v.index);
        text_ += ')';
        break;
      case ValueKind::op:
        // Named by the operands' type, which determines the result type.
        put("{}.{}(", op_info(v.op).name, heddle::name(v.args.back()->dtype));
        arguments(v.args);
        break;
      case ValueKind::cast:
        put("{}(", heddle::name(v.dtype));
        arguments(v.args);
        break;
    }
  }

  void arguments(const std::vector<ValuePtr>& args) {
    for (std::size_t k = 0; k < args.size(); ++k) {
      if (k > 0) text_ += ", ";
      value(*args[k]);
    }
    text_ += ')';
  }

  bool comments_;
  std::string text_;
};

}  // namespace

std::string print(const Scalar& scalar) {
  const sched::DefaultFloating floating;
  std::string number;
  if (is_floating(scalar.dtype)) {
    number = std::isnan(scalar.f)         ? "nan"
             : scalar.dtype == DType::f64 ? fmt::format("{}", scalar.f)
                                          : fmt::format("{}", static_cast<float>(scalar.f));
  } else if (scalar.dtype == DType::u64) {
    number = fmt::format("{}", static_cast<std::uint64_t>(scalar.i));
  } else {
    number = fmt::format("{}", scalar.i);
  }
  return fmt::format("{}:{}", number, name(scalar.dtype));
}

std::string print(const Loop& loop, const LoopNames* names) {
  return LoopPrinter(true).print(loop, names);
}

std::string digest(std::string_view text) {
  std::uint8_t bytes[16];
  if (blake2b(bytes, text.data(), nullptr, sizeof bytes, text.size(), 0) != 0) {
    throw Error(ErrorCode::internal, "BLAKE2b refused its own parameters");
  }
  std::string hex;
  for (const std::uint8_t byte : bytes) fmt::format_to(std::back_inserter(hex), "{:02x}", byte);
  return hex;
}

std::string hash(const Loop& loop) { return digest(LoopPrinter(false).print(loop, nullptr)); }

}  // namespace heddle::jit
