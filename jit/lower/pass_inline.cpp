// Virtual tensors: their definitions replace reads, as locals computed just before the reading
// statement. Pure; any thread.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "heddle/status.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/lower/passes.hpp"
#include "jit/lower/pieces.hpp"

namespace heddle::jit {
namespace {

/// The most statements of a kernel after inlining: if a definition is read at two elements of a
/// virtual tensor, whose definition is also read at two, and so on, the code would double at each
/// step.
constexpr std::size_t statements_max = 20'000;
/// Unless the user asks for recomputation, a definition of more statements than this is not
/// recomputed, and no statement takes in more statements than reader_statements_max: along a chain
/// of tensors each definition would be copied into the next. The limits cost a stored array per so
/// many statements; compilers take long over long bodies.
constexpr std::size_t definition_statements_max = 64;
constexpr std::size_t reader_statements_max = 256;

class Inliner {
 public:
  explicit Inliner(Lowered lowered) : lowered_(std::move(lowered)), uses_(lowered_.loop) {
    walk(lowered_.loop.body, [this](const Stmt& stmt) {
      if (binds_variable(stmt)) next_.var = std::max(next_.var, stmt.var + 1);
      if (stmt.kind == StmtKind::declare) next_.local = std::max(next_.local, stmt.local + 1);
    });
  }

  Lowered run() {
    const TensorBuffers buffers(lowered_);
    std::map<BufferId, std::string> refusals;  // of buffers without a definition
    for (auto& [tensor, placement] : lowered_.placements) {
      if (placement.mode != MemoryMode::virtual_) continue;
      buffer_ = buffers[tensor];
      if (uses_.readers(buffer_).empty()) continue;  // the assignments are dead code
      Inlinable found = find_definition(uses_, buffer_);
      if (found.definition) found.refusal = refusal(*found.definition, placement);
      if (found.refusal.empty()) {
        inline_buffer(std::move(*found.definition));
      } else if (found.definition) {
        store_instead(tensor, placement, found.refusal);
      } else {
        refusals[buffer_] = found.refusal;
      }
    }
    // Last: no definition is taken from a statement that was cut.
    for (auto& [tensor, placement] : lowered_.placements) {
      buffer_ = buffers[tensor];
      if (!refusals.contains(buffer_) || uses_.readers(buffer_).empty() || inline_pieces())
        continue;
      store_instead(tensor, placement, refusals.at(buffer_));
    }
    lowered_.loop.body = uses_.body();
    return std::move(lowered_);
  }

 private:
  bool is_own(const Value& v) const { return v.kind == ValueKind::load && v.buffer == buffer_; }
  bool is_own(const Stmt& s) const {
    return (s.kind == StmtKind::store || s.kind == StmtKind::zero) && s.buffer == buffer_;
  }

  static std::size_t count(const Block& block) {
    std::size_t n = 0;
    walk(block, [&n](const Stmt&) { ++n; });
    return n;
  }

  /// The reason against recomputing a buffer that can be recomputed; empty if there is none.
  std::string refusal(const Definition& definition, const Placement& placement) const {
    std::size_t size = 0;
    for (const DefinitionPart& part : definition.parts) size += count(part.body);
    std::size_t reads = 0, longest = 0;
    for (const auto& [reader, loads] : uses_.readers(buffer_)) {
      reads += loads;
      longest = std::max(longest, uses_.statements(reader.slot) + loads * size);
    }
    if (uses_.statements() + size * reads > statements_max) {
      return fmt::format("10: recomputing it makes the kernel longer than {} statements",
                         statements_max);
    }
    const bool asked = placement.asked == MemoryMode::virtual_ ||
                       placement.asked == MemoryMode::effectively_constant;
    const bool is_long = size > definition_statements_max || longest > reader_statements_max;
    if (asked || !is_long) return {};
    return fmt::format(
        "10: recomputing it makes a statement longer than {} statements",
        longest > reader_statements_max ? reader_statements_max : definition_statements_max);
  }

  void store_instead(const Tensor& tensor, Placement& placement, const std::string& cause) {
    if (placement.asked == MemoryMode::virtual_) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("tensor '{}' cannot be virtual (asked for at {}): cause {}; ask for "
                              "local, on_device or never_virtual",
                              tensor.label(), placement.provenance, cause));
    }
    const bool keep = placement.asked == MemoryMode::effectively_constant;
    placement.mode = keep ? MemoryMode::on_device : MemoryMode::local;
    placement.provenance += fmt::format(", then cannot be: cause {}", cause);
    if (keep) lowered_.loop.buffers[buffer_].role = Role::inout;
  }

  void inline_buffer(Definition definition) {
    definition_ = std::move(definition);
    std::set<std::uint32_t> slots;  // slots that read or define the buffer
    for (const KernelUses::Position at : definition_.positions) slots.insert(at.slot);
    for (const auto& [reader, loads] : uses_.readers(buffer_)) slots.insert(reader.slot);
    for (const std::uint32_t slot : slots) {
      Block rest;
      for (std::uint32_t k = 0; k < uses_.slot(slot).size(); ++k) {
        const KernelUses::Position at{slot, k};
        if (!std::ranges::binary_search(definition_.positions, at)) rest.push_back(uses_[at]);
      }
      uses_.replace(slot, replace(rest));
    }
  }

  /// false: the readers must load the buffer.
  bool inline_pieces() {
    const std::optional<Pieces> pieces = find_pieces(uses_, buffer_);
    if (!pieces) return false;
    std::map<std::uint32_t, Block> slots;
    const auto rest_of = [&](std::uint32_t slot) {
      Block rest;
      for (std::uint32_t k = 0; k < uses_.slot(slot).size(); ++k) {
        const KernelUses::Position at{slot, k};
        if (std::ranges::binary_search(pieces->positions, at)) continue;
        if (!uses_.readers(buffer_).contains(at)) {
          rest.push_back(uses_[at]);
          continue;
        }
        auto read = read_in_pieces(uses_[at], buffer_, *pieces, next_);
        if (!read || count(*read) > reader_statements_max) return false;
        rest.insert(rest.end(), read->begin(), read->end());
      }
      slots[slot] = std::move(rest);
      return true;
    };
    for (const auto& [reader, loads] : uses_.readers(buffer_)) {
      if (!slots.contains(reader.slot) && !rest_of(reader.slot)) return false;
    }
    for (const KernelUses::Position at : pieces->positions) {
      if (!slots.contains(at.slot) && !rest_of(at.slot)) return false;
    }
    for (auto& [slot, rest] : slots) uses_.replace(slot, std::move(rest));
    return true;
  }

  Block replace(const Block& body) {
    Block result;
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::loop) {
        result.push_back(with_body(*stmt, replace(stmt->body)));
      } else if (stmt->value) {
        done_.clear();
        ValuePtr value = rebuild(stmt->value, [&](ValuePtr v) {
          return is_own(*v) ? element(v->subscripts, v->dtype, result) : v;
        });
        StmtPtr done = value == stmt->value ? stmt : with_value(*stmt, std::move(value));
        if (stmt->kind == StmtKind::at) done = with_body(*done, replace(stmt->body));
        result.push_back(std::move(done));
      } else {
        result.push_back(stmt);
      }
    }
    return result;
  }

  /// The element at `subscripts` as a local, computed at the end of `before`. The local has the
  /// buffer's type: 16-bit floats round as if they had been stored.
  ValuePtr element(const std::vector<Affine>& subscripts, DType dtype, Block& before) {
    for (const auto& [at, local] : done_) {
      if (at == subscripts) return local;
    }
    ValuePtr local = make_local(next_.local++, dtype);
    // The local outlives a computed position of its first part.
    bool first = definition_.parts[0].body.back()->kind != StmtKind::at;
    if (!first)
      before.push_back(make_declare(local->local, make_constant(convert(Scalar{}, dtype))));
    for (const DefinitionPart& part : definition_.parts) {
      Substitution by;
      for (std::size_t axis = 0; axis < part.axes.size(); ++axis) {
        if (part.axes[axis]) by.vars[*part.axes[axis]] = subscripts[axis];
      }
      walk(part.body, [&](const Stmt& stmt) {
        if (binds_variable(stmt)) by.loops[stmt.var] = next_.var++;
        if (stmt.kind == StmtKind::declare) by.locals[stmt.local] = next_.local++;
      });
      for (const StmtPtr& stmt : part.body)
        before.push_back(in_local(substitute(stmt, by), local, first));
      first = false;
    }
    done_.emplace_back(subscripts, local);
    return local;
  }

  /// The statement with the tensor's element held in `local`.
  StmtPtr in_local(const StmtPtr& stmt, const ValuePtr& local, bool declares) const {
    if (binds_variable(*stmt)) {
      Block body;
      for (const StmtPtr& inner : stmt->body) body.push_back(in_local(inner, local, declares));
      return with_body(*stmt, std::move(body));
    }
    if (!stmt->value) return stmt;
    ValuePtr value =
        rebuild(stmt->value, [&](ValuePtr v) { return is_own(*v) ? local : std::move(v); });
    if (!is_own(*stmt)) return with_value(*stmt, std::move(value));
    return declares ? make_declare(local->local, std::move(value))
                    : make_assign(local->local, std::move(value));
  }

  Lowered lowered_;
  KernelUses uses_;
  Definition definition_;
  BufferId buffer_ = 0;
  // elements computed for the current statement
  std::vector<std::pair<std::vector<Affine>, ValuePtr>> done_;
  NewNames next_;
};

}  // namespace

Lowered inline_virtual(Lowered lowered) { return Inliner(std::move(lowered)).run(); }

}  // namespace heddle::jit
