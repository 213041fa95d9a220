// See turned_reads.hpp.
#include "jit/schedule/turned_reads.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "jit/schedule/transpose.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

/// Costly functions one after the other.
int chain_of(const Value& value) {
  int chain = 0;
  for (const ValuePtr& arg : value.args) chain = std::max(chain, chain_of(*arg));
  return chain + (value.kind == ValueKind::op && own_cost(value) >= costly ? 1 : 0);
}

class TurnedReads {
 public:
  TurnedReads(Scheduling& in, const Block& body) : in_(in), body_(body) {}

  [[nodiscard]] Block made() {
    for (std::size_t k = 0; k < body_.size(); ++k) note(k);
    Block result;
    for (std::size_t k = 0; k < body_.size(); ++k) {
      StmtPtr stmt = body_[k];
      for (Read& read : reads_) {
        if (!read.is_worth_it() || !std::ranges::binary_search(read.nests, k)) continue;
        if (read.nests.front() == k) result.push_back(turn(read));
        stmt = replaced(stmt, read);
      }
      result.push_back(stmt);
    }
    return result;
  }

 private:
  /// A value of a nest: an element that is read across the written memory, or what is computed from
  /// such elements alone.
  struct Read {
    ValuePtr value;                      ///< with the variables `across_` and `along_`
    std::int64_t across = 0, along = 0;  ///< extents
    std::vector<std::size_t> nests{};
    bool feeds_chain = false;
    BufferId turned = 0;  ///< [across, along]; of costly functions [along, across]

    [[nodiscard]] bool is_worth_it() const { return nests.size() > 1 || feeds_chain; }
    [[nodiscard]] bool is_cheap() const { return !has_costly(*value); }
  };

  void note(std::size_t at) {
    const std::optional<Transpose> found = find_transpose(in_.lowered.loop, body_[at]);
    if (!found || found->loops.size() != 2 || found->along->from != 0 || found->across->from != 0)
      return;
    int chain = 0;
    std::vector<ValuePtr> functions;
    for (const StmtPtr& stmt : found->loops.back()->body) {
      if (!stmt->value) continue;
      chain = std::max(chain, chain_of(*stmt->value));
      find_functions(stmt->value, *found, functions);
    }
    for (ValuePtr& function : functions) function = below_last_link(function);
    const bool is_chain = chain > 1;
    for (const ValuePtr& value : is_chain && !functions.empty() ? functions : found->turned)
      note(value, *found, at, is_chain);
  }

  void note(const ValuePtr& value, const Transpose& found, std::size_t at, bool is_chain) {
    Read read{key_of(value, found), extent(found.across), extent(found.along)};
    const std::int64_t bytes =
        read.across * read.along * static_cast<std::int64_t>(size_of(value->dtype));
    if (bytes > in_.target.l2_bytes / 4) return;
    auto known = std::ranges::find_if(reads_, [&](const Read& other) {
      return equal(*other.value, *read.value) && other.across == read.across &&
             other.along == read.along;
    });
    if (known != reads_.end() && is_written(*value, known->nests.front(), at)) return;
    if (known == reads_.end()) {
      // Before its parts, which are then replaced where they stand alone.
      known = std::ranges::find_if(
          reads_, [of = depth(*value)](const Read& other) { return depth(*other.value) < of; });
      known = reads_.insert(known, std::move(read));
    }
    if (known->nests.empty() || known->nests.back() != at) known->nests.push_back(at);
    known->feeds_chain = known->feeds_chain || is_chain;
  }

  /// Adds the largest parts of the value that have costly functions, and no operands but elements
  /// that are read across. Returns whether the value itself has no other operands.
  static bool find_functions(const ValuePtr& value, const Transpose& found,
                             std::vector<ValuePtr>& functions) {
    if (value->kind == ValueKind::constant) return true;
    if (value->kind == ValueKind::load)
      return std::ranges::any_of(found.reads,
                                 [&](const ValuePtr& read) { return equal(*read, *value); });
    if (value->kind != ValueKind::op && value->kind != ValueKind::cast) return false;
    const std::size_t before = functions.size();
    bool all = true;
    for (const ValuePtr& arg : value->args) all = find_functions(arg, found, functions) && all;
    if (!all || !has_costly(*value)) return all;
    functions.resize(before);
    functions.push_back(value);
    return true;
  }

  /// What the last function of a chain is a function of: the last one runs where elements are
  /// turned. The value itself where it is no chain.
  [[nodiscard]] static ValuePtr below_last_link(const ValuePtr& value) {
    const ValuePtr* link = nullptr;
    for (const ValuePtr& arg : value->args) {
      if (!has_costly(*arg)) continue;
      if (link != nullptr) return value;
      link = &arg;
    }
    if (link == nullptr) return value;
    const bool is_costly = value->kind == ValueKind::op && own_cost(*value) >= costly;
    if (is_costly) return *link;
    const ValuePtr below = below_last_link(*link);
    return below == *link ? value : below;
  }

  [[nodiscard]] ValuePtr key_of(const ValuePtr& value, const Transpose& found) const {
    Substitution by;
    by.vars[found.across->var] = affine_var(across_);
    by.vars[found.along->var] = affine_var(along_);
    return substitute(value, by);
  }

  /// True if statements from `first` on, up to and with `last`, write what the value reads.
  [[nodiscard]] bool is_written(const Value& value, std::size_t first, std::size_t last) const {
    std::set<BufferId> read;
    walk(value, [&](const Value& v) {
      if (v.kind == ValueKind::load) read.insert(v.buffer);
    });
    bool written = false;
    for (std::size_t k = first; k <= last; ++k) {
      walk(Block{body_[k]}, [&](const Stmt& stmt) {
        written = written || ((stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) &&
                              read.contains(stmt.buffer));
      });
    }
    return written;
  }

  /// The nest that stores the elements turned, or the functions where their operands lie.
  [[nodiscard]] StmtPtr turn(Read& read) {
    const bool turns = read.is_cheap();
    const Dims dims = turns ? Dims{read.across, read.along} : Dims{read.along, read.across};
    read.turned =
        in_.add_scratch(turns ? "turned" : "functions of columns", read.value->dtype, dims);
    const VarId across = in_.fresh.var(), along = in_.fresh.var();
    Substitution by;
    by.vars[across_] = affine_var(across);
    by.vars[along_] = affine_var(along);
    const VarId outer = turns ? across : along, inner = turns ? along : across;
    const StmtPtr store =
        make_store(read.turned, {affine_var(outer), affine_var(inner)}, substitute(read.value, by));
    return make_loop(outer, 0, dims[0], {make_loop(inner, 0, dims[1], {store})});
  }

  /// The nest, reading the scratch; where all is turned, its loop along the written memory is
  /// innermost.
  [[nodiscard]] StmtPtr replaced(const StmtPtr& nest, const Read& read) const {
    const std::optional<Transpose> found = find_transpose(in_.lowered.loop, nest);
    if (!found) return nest;
    const Affine across = affine_var(found->across->var), along = affine_var(found->along->var);
    const std::vector<Affine> place =
        read.is_cheap() ? std::vector{across, along} : std::vector{along, across};
    Block body;
    for (const StmtPtr& stmt : found->loops.back()->body) {
      const auto scratch = [&](ValuePtr v) {
        return v->kind == read.value->kind && equal(*key_of(v, *found), *read.value)
                   ? make_load(read.turned, v->dtype, place)
                   : std::move(v);
      };
      body.push_back(stmt->value ? with_value(*stmt, rebuild(stmt->value, scratch)) : stmt);
    }
    return with_body(*found->across, {with_body(*found->along, std::move(body))});
  }

  Scheduling& in_;
  const Block& body_;
  const VarId across_ = in_.fresh.var(), along_ = in_.fresh.var();
  std::vector<Read> reads_;
};

}  // namespace

Block with_turned_reads(Scheduling& in, const Block& body) { return TurnedReads(in, body).made(); }

}  // namespace heddle::jit
