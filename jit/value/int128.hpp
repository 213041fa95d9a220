// A 128-bit integer: sums of products of 64-bit subscripts without overflow. A type only.
#pragma once

namespace heddle::jit {

__extension__ typedef __int128 Int128;  // NOLINT: `using` takes no __extension__

}  // namespace heddle::jit
