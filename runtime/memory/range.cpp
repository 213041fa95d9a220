// See runtime/memory/range.hpp.
#include "runtime/memory/range.hpp"

namespace heddle::rt {

std::vector<Range> without(std::span<const Range> ranges, const Range& removed) {
  std::vector<Range> rest;
  for (const Range& whole : ranges) {
    for (const Range& part : {Range{whole.begin, std::min(whole.end, removed.begin)},
                              Range{std::max(whole.begin, removed.end), whole.end}}) {
      if (part.begin < part.end) rest.push_back(part);
    }
  }
  return rest;
}

}  // namespace heddle::rt
