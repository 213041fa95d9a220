// Vectors as C with vector extensions, which gcc and clang share: the types that a unit uses, and
// operations on them. Not thread-safe: one object per unit being emitted.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "jit/vector/lane_prims.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {

class CVectors {
 public:
  explicit CVectors(const Target& target) : target_(target) {}
  /// "v16f32"; marks the type as used, so that definitions() defines it. For types of 8 and 16
  /// bits: the type of f32, and the conversions.
  [[nodiscard]] std::string use(DType type);
  [[nodiscard]] bool in_pieces(DType type, const LanePart& part) const {
    return jit::in_pieces(part, type, target_);
  }
  /// Adds the type's streaming stores to the definitions.
  void use_streams(DType type) { streamed_.insert(type); }
  /// Adds transposes of blocks of the type's vectors to the definitions.
  void use_transpose(DType type) { transposed_.insert(type); }
  /// The type of values in lanes of the size of `word`: a bool is a mask.
  [[nodiscard]] std::string value_type(DType type, DType word);
  /// The mask that holds the bool in all lanes.
  [[nodiscard]] std::string mask_splat(const std::string& value, DType word);
  /// The expression that applies `function` to vectors.
  [[nodiscard]] std::string apply(const PrimFunction& function,
                                  const std::vector<std::string>& args, DType word);
  [[nodiscard]] std::string definitions() const;

 private:
  [[nodiscard]] std::string define(DType type) const;
  [[nodiscard]] std::string define_transpose(DType type) const;
  /// Definitions of loads of elements of 8 or 16 bits as f32; of f16, stores too.
  [[nodiscard]] std::string define_widened(DType type) const;
  std::string define(const PrimFunction& function, const std::string& name, DType word);
  std::string define(const Prim& prim, const PrimFunction& function, const std::string& result,
                     const std::vector<std::string>& args);

  Target target_;
  std::set<DType> used_, streamed_, transposed_, widened_;
  std::map<std::string, std::string> functions_;  // name -> definition
};

}  // namespace heddle::jit
