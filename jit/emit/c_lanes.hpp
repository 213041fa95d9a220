// Lanes loops as C with vector extensions, which gcc and clang share. Not thread-safe: CVectors is
// one object per unit, CLanes one per kernel being emitted.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "jit/vector/lane_prims.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {

/// The vector types that a unit uses, and what is done with them.
class CVectors {
 public:
  explicit CVectors(const Target& target) : target_(target) {}
  /// "v16f32", defined from now on.
  [[nodiscard]] std::string use(DType type);
  /// Its streaming stores too.
  void use_streams(DType type) { streamed_.insert(type); }
  /// What turns blocks of its vectors too.
  void use_transpose(DType type) { transposed_.insert(type); }
  /// The type of values in lanes of the size of `word`: a bool is a mask.
  [[nodiscard]] std::string value_type(DType type, DType word);
  /// The mask that holds the bool in all lanes.
  [[nodiscard]] std::string mask_splat(const std::string& value, DType word);
  /// The expression that applies `function` to vectors.
  [[nodiscard]] std::string apply(const PrimFunction& function,
                                  const std::vector<std::string>& args, DType word);
  [[nodiscard]] std::string definitions() const;
  [[nodiscard]] const Target& target() const noexcept { return target_; }

 private:
  [[nodiscard]] std::string define(DType type) const;
  [[nodiscard]] std::string define_transpose(DType type) const;
  std::string define(const PrimFunction& function, const std::string& name, DType word);
  std::string define(const Prim& prim, const PrimFunction& function, const std::string& result,
                     const std::vector<std::string>& args);

  Target target_;
  std::set<DType> used_, streamed_, transposed_;
  std::map<std::string, std::string> functions_;  // name -> definition
};

/// What the scalar emitter lends to that of lanes.
struct CScalars {
  std::function<void(const std::string&)> line;
  std::function<std::string(const Value&)> value;
  std::function<std::string(const Affine&)> index;
};

class CLanes {
 public:
  CLanes(const Loop& loop, const LanePlan& plan, CVectors& vectors, CScalars scalars)
      : loop_(loop),
        vectors_(vectors),
        scalars_(std::move(scalars)),
        plan_(plan),
        streams_(has_streams(loop, vectors.target())) {}

  /// Some stores pass the caches by.
  [[nodiscard]] bool streams() const noexcept { return streams_; }

  [[nodiscard]] bool is_vector_loop(const Stmt& loop) const {
    return plan_.vectors.contains(loop.var);
  }
  [[nodiscard]] bool has_vector_loop(const Block& body) const;
  /// A local block, as vector variables or as an array.
  void declare(const Stmt& stmt);
  /// A vector loop: a line per statement and vector.
  void loop(const Stmt& stmt);
  /// "x0[5 + i3]": an element of a block that is an array.
  [[nodiscard]] std::string element(LocalId local, const std::vector<Affine>& at) const;
  /// Code may be repeated or skipped from here on: what was computed for other statements before
  /// holds no longer.
  void forget() { turned_.clear(); }

 private:
  void part(const Stmt& loop, const LanePart& part);
  [[nodiscard]] std::string value(const Value& v, const LanePart& part);
  void store(const std::string& type, const std::string& pointer, const std::string& value,
             const LanePart& part, bool stream = false);
  [[nodiscard]] std::string pointer(char prefix, std::uint32_t id, const ArrayType& type,
                                    const std::vector<Affine>& at, const LanePart& part) const;
  [[nodiscard]] std::string place(LocalId local, const std::vector<Affine>& at,
                                  const LanePart& part) const;
  [[nodiscard]] std::string column(const Value& v, const LanePart& part);
  void share(const ValuePtr& value);

  const Loop& loop_;
  CVectors& vectors_;
  CScalars scalars_;
  const LanePlan& plan_;
  bool streams_;
  std::map<LocalId, ArrayType> blocks_;
  // Blocks whose columns are those of their rows now, and from which lane on.
  std::set<std::pair<LocalId, std::int64_t>> turned_;
  int splats_ = 0;
  // Of the loop at hand:
  const Stmt* lanes_ = nullptr;
  std::int64_t width_ = 0;
  DType word_ = DType::u32;
  std::set<LocalId> own_;
  std::vector<std::pair<ValuePtr, std::string>> splat_;  // values that all lanes share
};

}  // namespace heddle::jit
